"""What the rule files, their tests and PromQL say, read without a YAML parser:
the files here keep to the layout that `promtool check` and these few patterns
both read; a rule that is laid out otherwise is refused by rules_tested.py.
Standard library only."""

import re
from dataclasses import dataclass, field

# What is neither a metric nor a function in an expression.
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left",
         "group_right", "offset", "bool", "inf", "nan", "start", "end", "atan2"}
# Strings, or label matchers with strings, ranges, or lists of labels.
NOT_NAMES = re.compile(r"""
    \{ (?: [^{}"'] | "(?:[^"\\]|\\.)*" | '[^']*' )* \}
  | "(?:[^"\\]|\\.)*"
  | '[^']*'
  | \[ [^\]]* \]
  | \b (?: by | without | on | ignoring | group_left | group_right ) \s* \( [^()]* \)
""", re.VERBOSE)
NAME = re.compile(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\w)(?!\s*\()")


@dataclass
class Rule:
    kind: str  # "alert" or "record"
    name: str
    expression: str = ""
    # The lines of the file that hold the expression, from and up to.
    lines: tuple[int, int] = (0, 0)
    annotations: str = ""
    severity: str = ""


@dataclass
class Scenario:
    name: str
    # (expression, lines of the samples that it is to give)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)


def metric_names(expression):
    """The metrics of a PromQL expression."""
    bare = NOT_NAMES.sub(" ", expression)
    return {name for name in NAME.findall(bare) if name.lower() not in WORDS}


def indent(line):
    return len(line) - len(line.lstrip(" "))


def block(lines, index):
    """The text after the key in lines[index], and the line after it."""
    depth = indent(lines[index])
    text = [re.sub(r"^\s*(- )?\w+:\s*[|>]?-?", "", lines[index])]
    index += 1
    while index < len(lines) and (not lines[index].strip() or
                                  indent(lines[index]) > depth):
        text.append(lines[index].strip())
        index += 1
    return " ".join(text).strip(), index


def unquoted(text):
    return text[1:-1] if text[0] == text[-1] == "'" else text


def read_rules(path):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    rules = []
    for index, line in enumerate(lines):
        if match := re.fullmatch(r"      - (alert|record): (\S+)", line):
            rules.append(Rule(match[1], match[2]))
        elif line.startswith("        expr:"):
            text, end = block(lines, index)
            rules[-1].expression, rules[-1].lines = text, (index, end)
        elif line.startswith("        annotations:"):
            rules[-1].annotations = block(lines, index)[0]
        elif match := re.fullmatch(r" +severity: (\S+)", line):
            rules[-1].severity = match[1]
    return rules


def read_scenarios(path):
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    scenarios = []
    for line in lines:
        if match := re.fullmatch(r"  - name: (.+)", line):
            scenarios.append(Scenario(unquoted(match[1])))
        elif match := re.fullmatch(r"      - expr: (.+)", line):
            scenarios[-1].asked.append((unquoted(match[1]), []))
        elif match := re.fullmatch(r"          - labels: (.+)", line):
            scenarios[-1].asked[-1][1].append(unquoted(match[1]))
    return scenarios

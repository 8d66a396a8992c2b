#!/usr/bin/env python3
"""Whether every rule has tests, and whether the tests would miss it.

usage: rules_tested.py RULES_FOLDER TESTS_FOLDER

Rules in FILE.yml are tested by FILE.yml of the other folder. Each rule must be
asked for in an idle, a busy, a restart and a no-data scenario; an alert must be seen
to fire in some scenario, and not in the first two. All tests must pass. Then every
rule is broken in turn, so that it gives nothing, and its tests must fail: one that
wants a sample of it, or else any. Needs promtool; standard library only.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from rule_files import metric_names, read_rules, read_scenarios

SCENARIOS = ("idle", "busy", "restart", "no data")
HEALTHY = ("idle", "busy")
SEVERITIES = ("page", "ticket")


def asks_for(expression, rule):
    """Whether a test's expression would show what the rule gives."""
    if rule.kind == "alert":
        named = re.search(r'alertname="([^"]+)"', expression)
        return (("ALERTS" in metric_names(expression) or
                 re.search(r'__name__=~"[^"]*\bALERTS\b', expression)) and
                (not named or named[1] == rule.name))
    matcher = re.search(r'__name__=~"([^"]*)"', expression)
    return (rule.name in metric_names(expression) or
            matcher and re.fullmatch(matcher[1], rule.name))


def firing_labels(rule, scenarios):
    """The labels of each alert that a test wants to fire."""
    wanted = f'alertname="{rule.name}",alertstate="firing"'
    return [set(re.findall(r'(\w+)="', sample))
            for scenario in scenarios for _, samples in scenario.asked
            for sample in samples if wanted in sample]


def alert_faults(rule, scenarios):
    fires = firing_labels(rule, scenarios)
    if not fires:
        yield "no test sees it fire"
    if firing_labels(rule, [scenario for scenario in scenarios
                            if scenario.name.split(":")[0] in HEALTHY]):
        yield "it fires although all is well"
    if rule.severity not in SEVERITIES:
        yield f"severity {rule.severity!r}, expected one of {SEVERITIES}"
    for word in ("summary:", "description:"):
        if word not in rule.annotations:
            yield f"no {word[:-1]}"
    for label in re.findall(r"\$labels\.(\w+)", rule.annotations):
        if any(label not in labels for labels in fires):
            yield f"its annotations name the label {label}, which it has not"


def rule_faults(rule, scenarios):
    if not rule.expression:
        yield "its expression was not found"
    for word in SCENARIOS:
        if not any(scenario.name.split(":")[0] == word and
                   any(asks_for(expression, rule)
                       for expression, _ in scenario.asked)
                   for scenario in scenarios):
            yield f"no test of it is called '{word}'"
    if rule.kind == "alert":
        yield from alert_faults(rule, scenarios)


def promtool(tests, rules):
    """What promtool says against a text of tests with these rules in place of
    theirs; empty if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "rules.yml").write_text(rules, encoding="utf-8")
        copy = pathlib.Path(folder) / "tests.yml"
        copy.write_text(re.sub(r"(?m)^rule_files:\n  - .*$",
                               "rule_files:\n  - rules.yml", tests),
                        encoding="utf-8")
        ran = subprocess.run(["promtool", "test", "rules", str(copy)],
                             capture_output=True, text=True, check=False)
        return "" if ran.returncode == 0 else ran.stdout + ran.stderr + "failed"


def without(text, rule):
    """The rule file with an expression that gives nothing in the rule's place."""
    lines = text.splitlines()
    first, end = rule.lines
    return "\n".join(lines[:first] + ["        expr: vector(1) > 2"] + lines[end:])


def wants(scenario, rule):
    """Whether a scenario asks for a sample of the rule."""
    if rule.kind == "alert":
        return any(f'alertname="{rule.name}"' in sample
                   for _, samples in scenario.asked for sample in samples)
    return any(samples and rule.name in metric_names(expression)
               for expression, samples in scenario.asked)


def alone(tests, scenarios, chosen):
    """The text of the tests with one of its scenarios."""
    head, *parts = re.split(r"(?m)^(?=  - name: )", tests)
    return head + parts[scenarios.index(chosen)]


def is_missed(text, tests, scenarios, rule):
    """Whether no test fails although the rule gives nothing."""
    broken = without(text, rule)
    first = next((one for one in scenarios if wants(one, rule)), None)
    # Most of the time goes into scenarios: what one shows, the rest need not.
    if first and promtool(alone(tests, scenarios, first), broken):
        return False
    return not promtool(tests, broken)


def check(rules_file, tests_file, pool):
    if not tests_file.exists():
        return 0, [f"{rules_file}: no tests in {tests_file}"]
    rules = read_rules(rules_file)
    text = rules_file.read_text(encoding="utf-8")
    tests = tests_file.read_text(encoding="utf-8")
    scenarios = read_scenarios(tests_file)
    faults = [f"{rules_file.name}: {rule.name}: {fault}"
              for rule in rules for fault in rule_faults(rule, scenarios)]
    said = len(re.findall(r"(?m)^\s*-?\s*(?:alert|record):", text))
    if said != len(rules):
        faults.append(f"{rules_file.name}: {said} rules, {len(rules)} of them read")
    whole = pool.submit(promtool, tests, text)
    missed = pool.map(lambda rule: is_missed(text, tests, scenarios, rule), rules)
    if whole.result():
        faults.append(f"{tests_file}: {whole.result()}")
    faults += [f"{rules_file.name}: {rule.name}: its tests pass although it gives "
               "nothing" for rule, miss in zip(rules, missed) if miss]
    return len(rules), faults


def main():
    rules_folder, tests_folder = map(pathlib.Path, sys.argv[1:])
    total, faults = 0, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for rules_file in sorted(rules_folder.glob("*.yml")):
            count, found = check(rules_file, tests_folder / rules_file.name, pool)
            total += count
            faults += found
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{total} rules, each with tests that need it; {len(faults)} faults")
    sys.exit(1 if faults or not total else 0)


if __name__ == "__main__":
    main()

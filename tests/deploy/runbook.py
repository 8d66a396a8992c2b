"""Holds deploy/RUNBOOK.md against the alerts, and its paths against the files.
Standard library only."""

import re

SECTION = re.compile(r"^### (\S+)$", re.MULTILINE)
# Not what others have below names that begin so.
PATH = re.compile(r"(?<![\w/.-])((?:deploy|server|tests)/[\w./-]*\w)")
LINK = re.compile(r"\]\(([^)#]+)")


def faults(text, rules, root):
    """What is wrong with the runbook, for these rules; paths are of `root`."""
    alerts = [rule.name for rule in rules if rule.kind == "alert"]
    sections = SECTION.findall(text)
    for name in alerts:
        if sections.count(name) != 1:
            yield f"{sections.count(name)} sections are called {name}, expected one"
    for name in sections:
        if name not in alerts:
            yield f"there is no alert {name}"
    for name, body in re.findall(r"^### (\S+)\n(.*?)(?=^#|\Z)", text,
                                 re.MULTILINE | re.DOTALL):
        if not body.strip():
            yield f"{name} says nothing"
    for path in sorted(set(PATH.findall(text))):
        if not (root / path).exists():
            yield f"there is no {path}"
    for link in sorted(set(LINK.findall(text))):
        if not (root / "deploy" / link).exists():
            yield f"there is no {link}"

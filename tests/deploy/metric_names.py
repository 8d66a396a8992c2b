#!/usr/bin/env python3
"""Whether the server exports every metric that dashboards and rules name.

usage: metric_names.py METRICS DASHBOARDS_FOLDER RULES_FOLDER

METRICS is what a server under load gives as /metrics. Standard library only.
"""

import json
import pathlib
import re
import sys

from rule_files import metric_names, read_rules

# Prometheus' own.
ITS_OWN = {"up", "ALERTS", "scrape_duration_seconds"}


def exported(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return set(re.findall(r"(?m)^([a-zA-Z_]\w*)[ {]", text))


def expressions(dashboards, rules):
    """(where it stands, expression) of all that is asked."""
    for path in sorted(pathlib.Path(dashboards).glob("*.json")):
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in dashboard["templating"]["list"]:
            if match := re.match(r"label_values\((.+),", variable["query"]):
                yield f"{path.name}: variable {variable['name']}", match[1]
    for rule in rules:
        yield f"rule {rule.name}", rule.expression


def main():
    metrics, dashboards, folder = sys.argv[1:]
    rules = [rule for path in sorted(pathlib.Path(folder).glob("*.yml"))
             for rule in read_rules(path)]
    known = exported(metrics) | ITS_OWN | {
        rule.name for rule in rules if rule.kind == "record"}
    asked, faults = set(), 0
    for place, expression in expressions(dashboards, rules):
        names = metric_names(expression)
        asked |= names
        # A query of nothing is a query that was not understood.
        for name in sorted(names - known) or ([] if names else ["nothing"]):
            print(f"FAILED {place} asks for {name}, which the server has not")
            faults += 1
    print(f"{len(asked)} metrics are asked for, {faults} faults")
    sys.exit(1 if faults or not asked else 0)


if __name__ == "__main__":
    main()

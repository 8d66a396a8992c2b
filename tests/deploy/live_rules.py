#!/usr/bin/env python3
"""Asks a real Prometheus, which scrapes a real server under load, for its rules.

usage: live_rules.py PROMETHEUS_URL RULES_FOLDER

Fails if it has not loaded every rule of the folder, if one cannot be evaluated, or
if a recording rule gives no number. Standard library only.
"""

import math
import pathlib
import sys

from prometheus_api import ask
from rule_files import read_rules


def fault(url, rule):
    if rule["health"] == "err":
        return rule["lastError"]
    # Rules that are evaluated once a minute may not have been yet.
    reply = ask(url, "/api/v1/query", query=rule["query"])
    if reply["status"] != "success":
        return reply["error"]
    values = [float(series["value"][1]) for series in reply["data"]["result"]]
    if rule["type"] == "recording" and not any(map(math.isfinite, values)):
        return "no number"
    return None


def main():
    url, folder = sys.argv[1:]
    rules = [rule for group in ask(url, "/api/v1/rules")["data"]["groups"]
             for rule in group["rules"]]
    loaded = {rule["name"] for rule in rules}
    faults = [f"{rule.name}: not loaded"
              for path in pathlib.Path(folder).glob("*.yml")
              for rule in read_rules(path) if rule.name not in loaded]
    for rule in rules:
        if words := fault(url, rule):
            faults.append(f"{rule['name']}: {words}")
    for words in faults:
        print(f"FAILED {words}")
    print(f"{len(rules)} rules evaluated, {len(faults)} faults")
    sys.exit(1 if faults or not rules else 0)


if __name__ == "__main__":
    main()

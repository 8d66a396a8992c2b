#!/usr/bin/env python3
"""Asks a real Prometheus every question that a dashboard's panels ask.

usage: panels.py PROMETHEUS_URL DASHBOARD.json

Fails if a query is refused, if it gives no number, or nothing but zeros where the
load must have moved it. Standard library only.
"""

import json
import math
import re
import sys
import time

from prometheus_api import ask

WINDOW_SECONDS = 30
# Grafana's own variables, as it would fill them in for a scrape a second.
BUILT_IN = {"__rate_interval": "10s", "__interval": "1s",
            "__range": f"{WINDOW_SECONDS}s"}
# What a healthy server on a machine without a CPU quota shows as 0.
MAY_BE_ZERO = re.compile(r"INTERNAL|_throttled_|ALERTS|le=~")


def variables(url, dashboard):
    """The values of the dashboard's variables, found as Grafana finds them."""
    values = dict(BUILT_IN)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        match = re.fullmatch(r"label_values\((?:(.+),\s*)?(\w+)\)",
                             variable["query"])
        matcher = {"match[]": match[1]} if match[1] else {}
        labels = ask(url, f"/api/v1/label/{match[2]}/values", **matcher)["data"]
        if not labels:
            yield f"the variable {variable['name']} has no values"
        # Escaped twice: for the regular expression and for PromQL's string.
        values[variable["name"]] = "|".join(
            re.escape(label).replace("\\", "\\\\") for label in labels)
    return values


def numbers(url, expression):
    """The finite numbers that the query gives; an error is a string."""
    now = time.time()
    reply = ask(url, "/api/v1/query_range", query=expression,
                start=now - WINDOW_SECONDS, end=now, step=1)
    if reply["status"] != "success":
        return reply["error"]
    values = [float(value) for series in reply["data"]["result"]
              for _, value in series["values"]]
    return [value for value in values if math.isfinite(value)]


def fault(url, expression):
    found = numbers(url, expression)
    if isinstance(found, str):
        return found
    if not found:
        return "no number"
    if not any(found) and not MAY_BE_ZERO.search(expression):
        return "nothing but zeros"
    return None


def faults(url, dashboard):
    values = yield from variables(url, dashboard)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = re.sub(r"\$\{?(\w+)\}?", lambda m: values[m[1]],
                                target["expr"])
            if words := fault(url, expression):
                yield f"{panel['title']}: {words}: {expression}"


def main():
    url, file = sys.argv[1:]
    with open(file, encoding="utf-8") as stream:
        dashboard = json.load(stream)
    found = list(faults(url, dashboard))
    asked = sum(len(panel.get("targets", [])) for panel in dashboard["panels"])
    for words in found:
        print(f"FAILED {words}")
    print(f"{file}: {asked} queries, {len(found)} faults")
    sys.exit(1 if found or not asked else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Asks a real Prometheus every question that a dashboard's panels ask.

usage: panels.py PROMETHEUS_URL DASHBOARD.json

Fails if a panel's query is refused, if it gives no number, or if panels overlap.
Standard library only.
"""

import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

WINDOW_SECONDS = 30
# Grafana's own variables, as it would fill them in for a scrape a second.
BUILT_IN = {"__rate_interval": "10s", "__interval": "1s",
            "__range": f"{WINDOW_SECONDS}s"}


def ask(url, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{url}{path}?{query}", timeout=30) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return json.load(error)


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
            sys.exit(f"variable {variable['name']} has no values")
        # Escaped twice: for the regular expression and for PromQL's string.
        values[variable["name"]] = "|".join(
            re.escape(label).replace("\\", "\\\\") for label in labels)
    return values


def numbers(url, expression):
    """How many finite numbers the query gives; an error is a string."""
    now = time.time()
    reply = ask(url, "/api/v1/query_range", query=expression,
                start=now - WINDOW_SECONDS, end=now, step=1)
    if reply["status"] != "success":
        return reply["error"]
    return sum(math.isfinite(float(value))
               for series in reply["data"]["result"]
               for _, value in series["values"])


def overlap(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def layout_faults(panels):
    places = [(panel["gridPos"], panel["title"]) for panel in panels]
    for index, (place, title) in enumerate(places):
        if place["x"] + place["w"] > 24:
            yield f"{title}: wider than the page"
        for other, other_title in places[index + 1:]:
            if overlap(place, other):
                yield f"{title}: overlaps {other_title}"
    if len({panel["id"] for panel in panels}) != len(panels):
        yield "two panels have one id"


def main():
    url, file = sys.argv[1:]
    with open(file, encoding="utf-8") as stream:
        dashboard = json.load(stream)
    values = variables(url, dashboard)
    faults = list(layout_faults(dashboard["panels"]))
    asked = 0
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            asked += 1
            expression = re.sub(r"\$\{?(\w+)\}?", lambda m: values[m[1]],
                                target["expr"])
            found = numbers(url, expression)
            if isinstance(found, str) or found == 0:
                faults.append(f"{panel['title']}: {found or 'no number'}: "
                              f"{expression}")
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{file}: {asked} queries, {len(faults)} faults")
    sys.exit(1 if faults or not asked else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Holds the dashboards against what all of them promise, without Grafana.

usage: dashboards.py [--write] FOLDER

Each is laid out as lay_out() does it (--write does it); each panel says what it
shows, what is normal and what to do, and has a unit; panels do not overlap; the
dashboards link to each other and know the variables that they use. Standard
library only.
"""

import json
import pathlib
import re
import sys

WIDTH = 88
COLUMNS = 24
BUILT_IN = {"__rate_interval", "__interval", "__range"}
VARIABLES = {"datasource", "instance"}


def lay_out(value, depth=0, used=0):
    """JSON, where lists and objects that fit a line are on one."""
    line = json.dumps(value, ensure_ascii=False)
    if depth * 2 + used + len(line) <= WIDTH or not value or \
            not isinstance(value, (dict, list)):
        return line
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        parts = [inner + lay_out(part, depth + 1, 1) for part in value]
        return "[\n" + ",\n".join(parts) + f"\n{outer}]"
    parts = [f"{inner}{json.dumps(key)}: "
             f"{lay_out(part, depth + 1, len(key) + 5)}"
             for key, part in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{outer}}}"


def overlap(a, b):
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def layout_faults(panels):
    places = [(panel["gridPos"], panel["title"]) for panel in panels]
    for index, (place, title) in enumerate(places):
        if place["x"] + place["w"] > COLUMNS:
            yield f"{title}: wider than the page"
        for other, other_title in places[index + 1:]:
            if overlap(place, other):
                yield f"{title}: overlaps {other_title}"
    if len({panel["id"] for panel in panels}) != len(panels):
        yield "two panels have one id"


def panel_faults(panel):
    description = panel.get("description", "")
    for part in (r"\S+", r"\n\n\*\*Normal:\*\* \S+", r"\n\n\*\*To do:\*\* \S+"):
        if not re.search(part, description):
            yield f"its description has no {part!r}"
    unit = (panel["options"]["yAxis"] if panel["type"] == "heatmap"
            else panel["fieldConfig"]["defaults"]).get("unit")
    if not unit:
        yield "no unit"
    if panel.get("datasource", {}).get("uid") != "${datasource}":
        yield "not of the variable's data source"
    targets = panel.get("targets", [])
    if len({target["refId"] for target in targets}) != len(targets) or not targets:
        yield "no queries, or two of one refId"


def link_faults(dashboard):
    links = [link for link in dashboard.get("links", [])
             if link["type"] == "dashboards"]
    if not links:
        yield "no link to the other dashboards"
    for link in links:
        if not set(link["tags"]) <= set(dashboard["tags"]):
            yield f"the others' link by {link['tags']} does not find it"
        if not (link["keepTime"] and link["includeVars"]):
            yield "its link forgets the time or the servers"


def variable_faults(dashboard):
    known = [variable["name"] for variable in dashboard["templating"]["list"]]
    for name in VARIABLES - set(known):
        yield f"no variable {name}"
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(dashboard["panels"])))
    for name in used - set(known) - BUILT_IN:
        yield f"uses the variable {name}, which it has not"
    for name in set(known) - used:
        yield f"does not use its variable {name}"
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            for matcher in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
                if matcher[0] != "ALERTS" and "$instance" not in matcher[1]:
                    yield f"{panel['title']}: {matcher[0]} is of all servers"


def dashboard_faults(path, text):
    dashboard = json.loads(text)
    if text != lay_out(dashboard) + "\n":
        yield "not laid out as dashboards.py --write does it"
    if dashboard["uid"] != f"attn-{path.stem}":
        yield f"uid {dashboard['uid']}, expected attn-{path.stem}"
    panels = dashboard["panels"]
    yield from layout_faults(panels)
    yield from link_faults(dashboard)
    yield from variable_faults(dashboard)
    for panel in panels:
        if panel["type"] != "row":
            for fault in panel_faults(panel):
                yield f"{panel['title']}: {fault}"


def main():
    write = sys.argv[1] == "--write"
    folder = pathlib.Path(sys.argv[-1])
    found, faults = 0, []
    for path in sorted(folder.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        if write:
            text = lay_out(json.loads(text)) + "\n"
            path.write_text(text, encoding="utf-8")
        found += 1
        faults += [f"{path.name}: {fault}" for fault in dashboard_faults(path, text)]
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{found} dashboards, {len(faults)} faults")
    sys.exit(1 if faults or not found else 0)


if __name__ == "__main__":
    main()

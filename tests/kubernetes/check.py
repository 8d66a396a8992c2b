#!/usr/bin/env python3
"""Holds rendered manifests against each other, the server and the rules, and plants
mistakes that must be found.

usage: check.py RENDERED HELP OBJECTS

RENDERED has POOL.yaml and POOL-tls.yaml for each pool, and monitoring.yaml; HELP is
what `attn-server --helpfull` prints; OBJECTS is written for schema.mjs. The last line
is "N passed, N failed".
"""

import copy
import json
import pathlib
import re
import sys
from typing import Any, Iterator

import yaml  # type: ignore[import]

import mistakes
from checks import CHECKS, Context
from manifests import Object, Pool, load

ROOT = pathlib.Path(__file__).parents[2]
POOLS = ("stateless", "sessions", "stateless-tls", "sessions-tls")
PLANTED = {"stateless": mistakes.STATELESS, "sessions": mistakes.SESSIONS,
           "stateless-tls": mistakes.WITH_TLS}
OWN_FLAG_FILES = re.compile(r"  Flags from \S*server/app/\S+:")


def own_flags(text: str) -> set[str]:
    """Names of the server's own flags; absl's are none of ours."""
    found: set[str] = set()
    ours = False
    for line in text.splitlines():
        if line.startswith("  Flags from"):
            ours = OWN_FLAG_FILES.match(line) is not None
        elif ours and (match := re.match(r"    --([a-z_]+) ", line)):
            found.add(match[1].replace("_", "-"))
    return found


def read(rendered: pathlib.Path, help_text: str) -> Context:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in
                      sorted((ROOT / "deploy/prometheus/rules").glob("*.yml")))
    adapter: Any = yaml.safe_load(
        (ROOT / "deploy/kubernetes/monitoring/prometheus-adapter.yaml").read_text(
            encoding="utf-8"))
    return Context(
        pools=[Pool(name, load((rendered / f"{name}.yaml").read_text(
            encoding="utf-8"))) for name in POOLS],
        monitors=[each for each in load((rendered / "monitoring.yaml").read_text(
            encoding="utf-8")) if each["kind"] == "ServiceMonitor"],
        adapter=adapter, flags=own_flags(help_text),
        records=set(re.findall(r"- record: (\S+)", rules)), rules=rules)


def faults_of(context: Context, pool: Pool) -> list[str]:
    return [fault for check in CHECKS for fault in check(context, pool)]


def schema_cases(rendered: pathlib.Path) -> Iterator[Object]:
    """Every object, and each mistake in the first of its kind."""
    untouched = {kind: dict(changes) for kind, changes in mistakes.SCHEMA.items()}
    for file in ("monitoring", *POOLS):
        for each in load((rendered / f"{file}.yaml").read_text(encoding="utf-8")):
            name = f"{file}: {each['kind']} {each['metadata']['name']}"
            yield {"name": name, "object": each}
            for mistake, change in untouched.pop(each["kind"], {}).items():
                changed = copy.deepcopy(each)
                change(changed)
                if changed == each:
                    raise ValueError(f"{mistake}: changes nothing")
                yield {"name": name, "mistake": mistake, "object": changed}
    if untouched:
        raise ValueError(f"there is no {', '.join(untouched)}")


def main() -> None:
    rendered, help_file, objects = map(pathlib.Path, sys.argv[1:])
    context = read(rendered, help_file.read_text(encoding="utf-8"))
    passed = failed = 0

    def check(holds: bool, words: str) -> None:
        nonlocal passed, failed
        passed, failed = passed + holds, failed + (not holds)
        print("ok" if holds else "FAILED", words)

    for pool in context.pools:
        for each in CHECKS:
            faults = list(each(context, pool))
            check(not faults, f"{pool.name}: {each.__name__.replace('_', ' ')}")
            for fault in faults:
                print(f"  {fault}")
    for name, changes in PLANTED.items():
        for mistake, words, changed, pool in mistakes.planted(context, name, changes):
            found = [fault for fault in faults_of(changed, pool) if words in fault]
            check(bool(found), f"{name}: {mistake} is found")
    with objects.open("w", encoding="utf-8") as stream:
        json.dump(list(schema_cases(rendered)), stream)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

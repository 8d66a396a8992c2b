#!/usr/bin/env python3
"""Holds deploy/envoy/envoy.yaml against Envoy's schema and against itself, and
plants mistakes that must be found.

usage: check.py ENVOY.yaml DEPS WORK

DEPS is the folder of Envoy's .proto files. The last line is "N passed, N failed".
"""

import copy
import pathlib
import re
import sys
from typing import Any, Callable, Iterator

import yaml  # type: ignore[import]
from google.protobuf import json_format  # type: ignore[import]

from schema import Schema, compile_schema

# What a call may take at most: server/README.md, "AttendStream".
LONGEST_DEADLINE_SECONDS = 3600.0
READY = "attention.v1.AttentionService"


def manager(tree: Any) -> Any:
    return tree["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][
        0]["typed_config"]


def routes(tree: Any) -> Any:
    return manager(tree)["route_config"]["virtual_hosts"][0]["routes"]


def clusters(tree: Any) -> Any:
    return tree["static_resources"]["clusters"]


def addresses(cluster: Any) -> list[str]:
    """host:port of its servers."""
    found = []
    for group in cluster["load_assignment"]["endpoints"]:
        for each in group["lb_endpoints"]:
            socket = each["endpoint"]["address"]["socket_address"]
            found.append(f"{socket['address']}:{socket['port_value']}")
    return found


def own_faults(tree: Any) -> Iterator[str]:
    """What no schema says."""
    names = [cluster["name"] for cluster in clusters(tree)]
    if len(set(names)) != len(names):
        yield "two clusters have one name"
    servers = addresses(next(each for each in clusters(tree)
                             if each["name"] == "attn"))
    for server in servers:
        if server not in names:
            yield f"no cluster {server} for the sessions of that server"
    for cluster in clusters(tree):
        yield from cluster_faults(cluster, servers)
    for route in routes(tree):
        named = route["route"].get("cluster")
        if named is not None and named not in names:
            yield f"there is no cluster {named}"
    yield from order_faults(routes(tree))
    times = [manager(tree)["stream_idle_timeout"],
             manager(tree)["common_http_protocol_options"]["idle_timeout"],
             *(route["route"]["timeout"] for route in routes(tree))]
    for time in times:
        if 0 < float(time.removesuffix("s")) <= LONGEST_DEADLINE_SECONDS:
            yield f"{time} is less than the longest deadline"
    if tree["admin"]["address"]["socket_address"]["address"] != "127.0.0.1":
        yield "Envoy's own pages are not on the loopback"


def cluster_faults(cluster: Any, servers: list[str]) -> Iterator[str]:
    name = cluster["name"]
    if cluster["load_assignment"]["cluster_name"] != name:
        yield f"{name} is called otherwise in its load_assignment"
    options = cluster.get("typed_extension_protocol_options", {})
    if not any("http2_protocol_options" in each.get("explicit_http_config", {})
               for each in options.values()):
        yield f"{name} does not speak HTTP/2"
    checks = cluster.get("health_checks", [])
    if ":" in name:
        # An owner.
        if addresses(cluster) != [name]:
            yield f"{name} is not at that address"
        if checks or "outlier_detection" in cluster:
            yield f"{name} is left while it drains"
        return
    if addresses(cluster) != servers:
        yield f"{name} has other servers"
    if [each.get("grpc_health_check", {}).get("service_name") for each in checks] != \
            [READY]:
        yield f"{name} does not ask whether a server is ready"
    if cluster.get("common_lb_config", {}).get("healthy_panic_threshold") != {
            "value": 0}:
        yield f"{name} sends to servers that do not serve"


def order_faults(given: Any) -> Iterator[str]:
    """A call of a session goes to its owner before anything else is looked at."""
    headers = [[each["name"] for each in route["match"].get("headers", [])]
               for route in given]
    if headers[:2] != [["x-attn-route"], ["x-attn-session"]] or any(headers[2:]):
        yield "sessions' calls are not looked at first"
    if given[0]["route"].get("cluster_header") != "x-attn-route":
        yield "sessions' calls do not go to their owner"
    if [each["header"]["header_name"] for each in
            given[1]["route"].get("hash_policy", [])] != ["x-attn-session"]:
        yield "calls without an owner are not hashed"
    for method, repeated in (("Step", False), ("OpenSession", False)):
        if ("retry_policy" in target(
                given, f"/attention.v1.SessionService/{method}")) != repeated:
            yield f"{method} is made twice"
    if "retry_policy" in target(given, "/attention.v1.LayerService/PutLayer"):
        yield "PutLayer is made twice"
    if "retry_policy" not in target(given, "/attention.v1.AttentionService/Attend"):
        yield "Attend is not tried again"


def target(given: Any, path: str) -> Any:
    """The action of a call without our headers."""
    for route in given:
        match = route["match"]
        if match.get("headers"):
            continue
        if path.startswith(match.get("prefix", "\n")) or re.fullmatch(
                match.get("safe_regex", {}).get("regex", "\n"), path):
            return route["route"]
    return {}


def cluster(tree: Any, name: str) -> Any:
    return next(each for each in clusters(tree) if each["name"] == name)


Change = Callable[[Any], Any]
MISTAKES: dict[str, tuple[str, Change]] = {
    "a misspelt field": ("no field named", lambda t: clusters(t)[0].update(
        lb_polisy="RING_HASH")),
    "a misspelt field of an extension": ("no field named", lambda t: manager(
        t).update(codec="HTTP2")),
    "a policy that there is not": ("Failed to parse lbPolicy|enum", lambda t: clusters(
        t)[0].update(lb_policy="LEAST_REQUESTS")),
    "a type that there is not": ("Couldn't find|Can not find", lambda t: manager(
        t)["http_filters"][0]["typed_config"].update(
            {"@type": "type.googleapis.com/envoy.extensions.filters.http.Router"})),
    "a duration without its unit": ("Duration|must end", lambda t: clusters(
        t)[0].update(connect_timeout="1")),
    "a port in words": ("port", lambda t: t["admin"]["address"][
        "socket_address"].update(port_value="admin")),
    "a port beyond all": ("breaks lte 65535", lambda t: t["admin"]["address"][
        "socket_address"].update(port_value=70000)),
    "a route to nowhere": ("cluster_specifier is required", lambda t: routes(t)[
        3]["route"].pop("cluster")),
    "a ring beyond all": ("breaks lte 8388608", lambda t: cluster(
        t, "attn-hashed")["ring_hash_lb_config"].update(minimum_ring_size=9000000)),
    "no choice": ("breaks gte 2", lambda t: cluster(t, "attn")[
        "least_request_lb_config"].update(choice_count=1)),
    "no interval of health checks": ("interval: is required", lambda t: cluster(
        t, "attn")["health_checks"][0].pop("interval")),
    "a window that is too small": ("breaks gte 65535", lambda t: manager(t)[
        "http2_protocol_options"].update(initial_stream_window_size=1000)),
    "no name of the statistics": ("stat_prefix", lambda t: manager(t).pop(
        "stat_prefix")),
    "a header's name with a space": ("well_known_regex", lambda t: routes(t)[0][
        "match"]["headers"][0].update(name="x attn route")),
    "a deprecated field": ("is deprecated", lambda t: clusters(t)[0].update(
        http2_protocol_options={})),
    "a cluster that there is not": ("there is no cluster attn-stateless", lambda t:
        routes(t)[3]["route"].update(cluster="attn-stateless")),
    "a server without a cluster": ("no cluster attn-3:8001", lambda t: clusters(
        t).pop()),
    "an owner at another address": ("attn-1:8001 is not at", lambda t: cluster(
        t, "attn-1:8001").update(load_assignment=cluster(t, "attn-2:8001")[
            "load_assignment"])),
    "an owner that is left when it drains": ("left while it drains", lambda t: cluster(
        t, "attn-1:8001").update(health_checks=cluster(t, "attn")["health_checks"])),
    "HTTP/1 to the servers": ("does not speak HTTP/2", lambda t: cluster(
        t, "attn").pop("typed_extension_protocol_options")),
    "liveness for readiness": ("does not ask whether", lambda t: cluster(t, "attn")[
        "health_checks"][0].update(grpc_health_check={})),
    "panic": ("sends to servers that do not", lambda t: cluster(t, "attn").pop(
        "common_lb_config")),
    "a step that is made twice": ("Step is made twice", lambda t: routes(t).pop(2)),
    "hashing before owners": ("are not looked at first", lambda t: routes(t).insert(
        0, routes(t).pop(1))),
    "a short timeout": ("less than the longest", lambda t: routes(t)[3][
        "route"].update(timeout="15s")),
    "pages for everybody": ("not on the loopback", lambda t: t["admin"]["address"][
        "socket_address"].update(address="0.0.0.0")),
}


def faults_of(schema: Schema, tree: Any) -> list[str]:
    try:
        message = schema.parse(tree)
    except json_format.ParseError as error:
        return [str(error)]
    return [*schema.faults(message), *own_faults(tree)]


def main() -> None:
    path, deps, work = map(pathlib.Path, sys.argv[1:])
    schema = Schema(compile_schema(deps, work))
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    faults = faults_of(schema, tree)
    print("FAILED" if faults else "ok", f"{path.name} is as Envoy's schema says")
    for fault in faults:
        print(f"  {fault}")
    passed, failed = int(not faults), int(bool(faults))
    for name, (words, change) in MISTAKES.items():
        # Aliases of the file are one object: a copy of each, by way of text.
        changed = yaml.safe_load(yaml.dump(copy.deepcopy(tree), Dumper=Plain))
        change(changed)
        found = faults_of(schema, changed)
        holds = any(re.search(words, fault) for fault in found)
        passed, failed = passed + holds, failed + (not holds)
        print("ok" if holds else "FAILED", f"{name} is found",
              "" if holds else found)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


class Plain(yaml.SafeDumper):  # type: ignore[misc]
    """Writes what is there twice, twice."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Holds deploy/compose.yaml against what it promises, and against the files that it
mounts.

usage: settings.py COMPOSE_FILE

Needs Debian's python3-yaml.
"""

import pathlib
import re
import sys

import yaml

OURS = "attn:dev"
GRPC_PORT = 8001
METRICS_PORT = 8002
UNITS = {"m": 2**20, "g": 2**30}
# The server's defaults of --drain-delay and --drain-timeout, and what is reckoned for
# replies that are on their way; then sessions are written, as deploy/kubernetes has it.
DRAIN_SECONDS = 5 + 25 + 10
WRITTEN_BYTES_PER_SECOND = 64 * 2**20


def size_in_bytes(text):
    match = re.fullmatch(r"(\d+)([mg])", str(text))
    return int(match[1]) * UNITS[match[2]] if match else 0


def port_faults(name, service):
    for port in service.get("ports", []):
        if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", str(port)):
            yield f"{name}: port {port} is not on 127.0.0.1"


def mount_faults(name, service, compose, folder):
    for mount in service.get("volumes", []):
        source, target, *options = mount.split(":")
        if source.startswith("."):
            if not (folder / source).exists():
                yield f"{name}: {source}, mounted at {target}, is not there"
            if options != ["ro"]:
                yield f"{name}: {source} of the checkout can be written"
        elif source not in compose["volumes"]:
            yield f"{name}: volume {source} is not declared"


def lock_faults(name, service):
    if service.get("cap_drop") != ["ALL"]:
        yield f"{name}: has capabilities"
    if service.get("security_opt") != ["no-new-privileges"]:
        yield f"{name}: may gain privileges"
    if not size_in_bytes(service.get("mem_limit")):
        yield f"{name}: has no limit of memory"
    # Grafana's image was not at hand to try it.
    if name != "grafana" and service.get("read_only") is not True:
        yield f"{name}: its root can be written"
    image = service.get("image", "")
    if image != OURS and not re.search(r":v?\d+\.\d+\.\d+$", image):
        yield f"{name}: image '{image}' has no version"


def server_faults(name, service):
    """What only the servers have: an address of their own, and room for it all."""
    environment = service.get("environment", {})
    address = environment.get("ATTN_ADVERTISE_ADDRESS")
    if address != f"{name}:{GRPC_PORT}":
        yield f"{name}: tells its clients to ask {address}"
    inflight, sessions, layers = (
        int(environment.get(f"ATTN_MAX_{kind}_BYTES", 2**30))
        for kind in ("INFLIGHT", "SESSION", "LAYER"))
    # What gRPC still reads is bounded as what is inside.
    if 2 * inflight + sessions + layers >= size_in_bytes(
            service.get("mem_limit")):
        yield f"{name}: its own limits are more than its memory"
    grace = re.fullmatch(r"(\d+)s", str(service.get("stop_grace_period")))
    needed = DRAIN_SECONDS + sessions / WRITTEN_BYTES_PER_SECOND
    if not grace or int(grace[1]) < needed:
        yield f"{name}: is killed while it stops, which may take {needed:.0f} s"


def targets(prometheus, job):
    return {target for config in prometheus["scrape_configs"]
            if config["job_name"] == job
            for static in config["static_configs"]
            for target in static["targets"]}


def neighbour_faults(servers, folder):
    """Prometheus and HAProxy know every server, by the name it has here."""
    prometheus = yaml.safe_load((folder / "prometheus/prometheus.yml").read_text())
    if targets(prometheus, "attn") != {f"{name}:{METRICS_PORT}" for name in servers}:
        yield "prometheus.yml does not scrape the servers that there are"
    haproxy = (folder / "haproxy/haproxy.cfg").read_text()
    for name in servers:
        address = re.escape(f"{name}:{GRPC_PORT}")
        if not re.search(rf"(?m)^\s*server {address} {address}\b", haproxy):
            yield f"haproxy.cfg has no server {name}:{GRPC_PORT} of that name"
    metrics = [target.rpartition(":")[2] for target in targets(prometheus, "haproxy")]
    for port in metrics or ["(none)"]:
        if not re.search(rf"(?m)^\s*bind :{port}$", haproxy):
            yield f"prometheus.yml scrapes HAProxy's port {port}, which it has not"


def faults(compose, folder):
    services = compose["services"]
    for name, service in services.items():
        yield from port_faults(name, service)
        yield from mount_faults(name, service, compose, folder)
        yield from lock_faults(name, service)
        for other in service.get("depends_on", {}):
            if other not in services:
                yield f"{name}: waits for {other}, which is not there"
    servers = [name for name, service in services.items()
               if service.get("image") == OURS]
    if len(servers) < 2:
        yield "there are less than two servers"
    for name in servers:
        yield from server_faults(name, services[name])
    yield from neighbour_faults(servers, folder)


def main():
    path = pathlib.Path(sys.argv[1])
    found = list(faults(yaml.safe_load(path.read_text()), path.parent))
    for fault in found:
        print(f"FAILED {fault}")
    print(f"{path.name}: {len(found)} faults")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

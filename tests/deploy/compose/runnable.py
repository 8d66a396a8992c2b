#!/usr/bin/env python3
"""Writes a compose file as podman-compose can run it where there is no systemd and
no registry: the same services and settings, with these differences.

usage: runnable.py COMPOSE_FILE WITHOUT... >FILE

- the services named are left out (their images are not at hand);
- the host's ports are any that are free, on the same address;
- health checks and restarts are left out: podman's need systemd;
- nothing is built, and paths are absolute.

Needs Debian's python3-yaml.
"""

import pathlib
import sys

import yaml


def absolute(mount, folder):
    source, _, rest = mount.partition(":")
    if source.startswith("."):
        source = str((folder / source).resolve())
    return f"{source}:{rest}"


def any_port(port):
    address, _, inside = port.split(":")
    return f"{address}::{inside}"


def runnable(service, folder, without):
    service = {key: value for key, value in service.items()
               if key not in ("build", "healthcheck", "restart")}
    service["volumes"] = [absolute(mount, folder) for mount in service["volumes"]]
    service["ports"] = [any_port(port) for port in service.get("ports", [])]
    service["depends_on"] = [name for name in service.get("depends_on", {})
                             if name not in without]
    return service


def main():
    path = pathlib.Path(sys.argv[1])
    without = set(sys.argv[2:])
    compose = yaml.safe_load(path.read_text())
    services = {name: runnable(service, path.parent, without)
                for name, service in compose["services"].items()
                if name not in without}
    used = {mount.partition(":")[0] for service in services.values()
            for mount in service["volumes"]}
    yaml.safe_dump({
        "name": compose["name"],
        "services": services,
        "volumes": {name: None for name in compose["volumes"] if name in used},
    }, sys.stdout)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A rendered Deployment as podman runs it on this machine.

usage: play.py IMAGE <STATELESS.yaml >DEPLOYMENT.yaml

The image is the one given, which is there already; ports are any free ones of the
loopback, as podman publishes none on the machine's own network.
"""

import re
import sys

import yaml  # type: ignore[import]

from manifests import Pool, load


def main() -> None:
    pool = Pool("stateless", load(sys.stdin.read()))
    container = pool.container
    container["image"], container["imagePullPolicy"] = sys.argv[1], "Never"
    container["args"] = [re.sub(r"=0\.0\.0\.0:\d+$", "=127.0.0.1:0", each)
                         for each in container["args"]]
    del container["ports"]
    yaml.safe_dump(pool.workload, sys.stdout)


if __name__ == "__main__":
    main()

"""A link between two machines on which every packet takes its time.

usage: delayed_link.py HERE THERE NAMESPACE DELAY_MS JITTER_MS

Makes the TUN devices HERE, in its own network namespace, and THERE, in another,
and carries IP packets between them. The kernel's netem does the same, where there
is one. Prints a line when the devices are there; runs until it is killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_CLONE_NEWNET = 0x40000000
_LONGEST_PACKET = 65536


def open_tun(name: str) -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(tun, _TUNSETIFF, request)
    return tun


def enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def carry(ends: tuple[int, int], delay: float, jitter: float) -> None:
    """In order, as on a wire: no packet passes the one before it."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    last = {end: 0.0 for end in ends}
    waiting: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], pause)[0]:
            number += 1
            due = time.monotonic() + delay + random.uniform(-jitter, jitter)
            last[end] = max(last[end], due)
            packet = os.read(end, _LONGEST_PACKET)
            heapq.heappush(waiting, (last[end], number, other[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            os.write(end, packet)


def main() -> None:
    here, there, namespace, delay, jitter = sys.argv[1:]
    first = open_tun(here)
    enter(namespace)
    second = open_tun(there)
    print("ready", flush=True)
    carry((first, second), float(delay) / 1000, float(jitter) / 1000)


if __name__ == "__main__":
    main()

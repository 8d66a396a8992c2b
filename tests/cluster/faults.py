"""Faults: what a network does to the packets of a host."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from typing import Iterator

from network import Host, run

_SERVED = ("-p", "tcp", "--sport", "8001")
_ASKED = ("-p", "tcp", "--dport", "8001")
_LINK = pathlib.Path(__file__).with_name("delayed_link.py")


@contextlib.contextmanager
def loss(host: Host, share: float) -> Iterator[None]:
    """Loses this share of the packets of gRPC, each way by itself."""
    lost = ("-m", "statistic", "--mode", "random", "--probability", f"{share:.2f}")
    with _rules(host, lost):
        yield


@contextlib.contextmanager
def black_hole(host: Host) -> Iterator[None]:
    """Loses all packets of gRPC without a word: connections stand, and nothing
    comes."""
    with _rules(host, ()):
        yield


@contextlib.contextmanager
def _rules(host: Host, which: tuple[str, ...]) -> Iterator[None]:
    rules = [
        (chain, *flow, *which, "-j", "DROP")
        for chain, flow in (("INPUT", _ASKED), ("OUTPUT", _SERVED))
    ]
    for rule in rules:
        host.run("iptables", "-w", "-A", *rule)
    try:
        yield
    finally:
        for rule in rules:
            host.run("iptables", "-w", "-D", *rule)


@contextlib.contextmanager
def slow_link(host: Host, kilobits: int) -> Iterator[None]:
    """All that the host sends goes through so many kbit/s: packets wait in line,
    for 400 ms at most, and are lost beyond."""
    host.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
             f"{kilobits}kbit", "burst", "5kb", "latency", "400ms")  # fmt: skip
    try:
        yield
    finally:
        host.run("tc", "qdisc", "del", "dev", "eth0", "root")


@contextlib.contextmanager
def delayed_link(host: Host, delay_ms: int, jitter_ms: int) -> Iterator[str]:
    """A way of its own to the host's gRPC, on which each packet takes so long, give
    or take the jitter, each way: its address."""
    process = subprocess.Popen(
        [sys.executable, str(_LINK), "far0", "near0", host.name, str(delay_ms),
         str(jitter_ms)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        run("ip", "address", "add", "10.78.0.1", "peer", "10.78.0.2", "dev", "far0")
        run("ip", "link", "set", "far0", "up")
        host.run("ip", "address", "add", "10.78.0.2", "peer", "10.78.0.1", "dev",
                 "near0")  # fmt: skip
        host.run("ip", "link", "set", "near0", "up")
        yield "10.78.0.2:8001"
    finally:
        process.kill()
        process.communicate()

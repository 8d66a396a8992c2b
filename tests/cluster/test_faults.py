"""A network that loses, delays and swallows packets: what is answered is right, and
what is not is a typed error when the deadline has come."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, ContextManager

import pytest

import faults
from conftest import Cluster
from load import digests, undisturbed
from test_restart import tell
from waiting import until

DEADLINE_MS = 3000
# What a deadline may be late by on a machine that is busy. One that each attempt had
# for itself would be late by DEADLINE_MS.
GRACE_MS = 2000
TYPED = {"DEADLINE_EXCEEDED", "UNAVAILABLE"}

HARM: dict[str, Callable[[Any], ContextManager[Any]]] = {
    "5 % loss": lambda host: faults.loss(host, 0.05),
    "30 % loss": lambda host: faults.loss(host, 0.30),
    "slow link": lambda host: faults.slow_link(host, 512),
    "black hole": faults.black_hole,
}


def check(told: dict[str, Any], deadline_ms: int = DEADLINE_MS) -> None:
    assert told["wrong"] == 0, told
    assert set(told["failed"]) <= TYPED, told
    assert told["longest_ms"] <= deadline_ms + GRACE_MS, told


@pytest.mark.parametrize("harm", HARM)
def test_calls_end_by_their_deadline(
    cluster: Cluster, note: Callable[[str], None], harm: str
) -> None:
    server = cluster.start_servers(1)[0]
    calls = 40 if harm == "5 % loss" else 12
    # One whose connection stood before, and one that has yet to connect.
    standing = cluster.load(
        server.target, calls, callers=4, pause_ms=20, deadline_ms=DEADLINE_MS
    )
    until(lambda: server.calls() > 0, "a call")
    with HARM[harm](server.host):
        fresh = cluster.load(server.target, calls, callers=4, deadline_ms=DEADLINE_MS)
        told = {"fresh": fresh.finish(), "standing": standing.finish()}
    for who, one in told.items():
        note(f"{harm}: {tell(one, who)}")
        check(one)
    if harm == "black hole":
        assert told["fresh"]["ok"] == 0
    else:
        assert told["fresh"]["ok"] + told["standing"]["ok"] > 0
    # And it was the network.
    again = cluster.load(server.target, 20, deadline_ms=30_000).finish()
    assert again["ok"] == again["calls"], again


@pytest.mark.skipif(
    not pathlib.Path("/dev/net/tun").exists(), reason="there is no /dev/net/tun"
)
def test_calls_and_sessions_bear_a_delay(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    server = cluster.start_servers(1)[0]
    with faults.delayed_link(server.host, 80, 30) as address:
        told = cluster.load(address, 60, callers=6).finish()
        note(tell(told, "80 ms, give or take 30, each way"))
        check(told, 10_000)
        assert told["ok"] == told["calls"], told
        # There and back.
        assert told["p50_ms"] >= 100, told


def test_sessions_bear_loss(cluster: Cluster, note: Callable[[str], None]) -> None:
    servers = cluster.start_servers(2)
    addresses = [one.target for one in servers]
    decodes = cluster.decodes(addresses, 4, deadline_ms=DEADLINE_MS)
    decodes.step(5)
    with faults.loss(servers[0].host, 0.1):
        told = decodes.step(20)
    failures = [one for decode in told for one in decode["failures"]]
    note(f"10 % loss: longest step {max(one['longest_ms'] for one in told):.0f} ms, "
         f"{sum(one['moves'] for one in told)} moves, "
         f"{[one['code'] for one in failures]}")  # fmt: skip
    assert {one["code"] for one in failures} <= TYPED
    assert all(one["ms"] <= DEADLINE_MS + GRACE_MS for one in failures), failures
    told = decodes.step(5)
    assert all(one["tokens"] == 30 for one in told), told
    assert digests(told) == undisturbed(servers[1].target, 4, 30)


def test_a_black_hole_behind_haproxy_loses_no_call(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    """HAProxy lets go of a server that is silent; its calls are made again, and its
    sessions go on elsewhere."""
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    decodes = cluster.decodes([proxy.target], 6, through_proxy=True)
    decodes.step(5)
    load = cluster.load(proxy.target, 500, callers=4, pause_ms=5, deadline_ms=30_000)
    owned = len(servers[0].sessions())
    with faults.black_hole(servers[0].host):
        decodes.begin(20)
        down = proxy.await_state([servers[0].name], up=False)
        steps = decodes.await_told()
        told = load.finish()
    note(f"DOWN after {down:.1f} s; longest step "
         f"{max(one['longest_ms'] for one in steps):.0f} ms; "
         f"{tell(told, 'calls')}")  # fmt: skip
    assert told["ok"] == told["calls"], told
    assert not any(one["failures"] for one in steps), steps
    assert sum(one["moves"] for one in steps) == owned
    assert digests(steps) == undisturbed(servers[1].target, 6, 25)

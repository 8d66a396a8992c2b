"""A third server, how calls are divided among all, and addresses that change."""

from __future__ import annotations

from typing import Callable

import numpy as np

from attn_client import AttentionClient
from conftest import Cluster
from load import digests, undisturbed
from server import Server
from test_restart import CALLS, tell
from waiting import until

SESSIONS = 12


def owners(servers: list[Server]) -> dict[str, str]:
    """The server of each session."""
    return {
        session: server.name for server in servers for session in server.sessions()
    }


def imbalance(servers: list[Server], before: list[float]) -> float:
    """Calls of the server that had most, by their mean."""
    calls = [one.calls() - had for one, had in zip(servers, before)]
    return max(calls) / (sum(calls) / len(calls))


def test_a_third_server_moves_no_session(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    cluster.start_servers(2)
    proxy = cluster.start_haproxy()
    decodes = cluster.decodes(
        [proxy.target], SESSIONS, through_proxy=True, pause_ms=5
    )
    decodes.step(20)
    before = owners(cluster.servers)
    assert len(before) == SESSIONS and len(set(before.values())) == 2
    decodes.begin(300)
    third = cluster.start_servers(1)[0]
    seen = proxy.await_state([third.name], up=True)
    decodes.await_told()
    told = decodes.step(20)
    assert [one["moves"] for one in told] == [0] * SESSIONS, told
    assert owners(cluster.servers) == before
    load = cluster.load(proxy.target, 300)
    assert load.finish()["failed"] == {}
    assert third.calls() >= 50, "calls reach it"
    later = cluster.decodes([proxy.target], SESSIONS, through_proxy=True)
    later.step(1)
    assert third.sessions(), "new sessions reach it"
    note(f"0 of {SESSIONS} sessions moved; third server in use {seen:.2f} s after it "
         f"was ready")  # fmt: skip
    assert not any(one["failures"] for one in told), told
    assert digests(told) == undisturbed(third.target, SESSIONS, 340)


def test_one_client_uses_all_servers_alike(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    # HAProxy evens what is under way: of six callers a server that is slow for a
    # moment gets fewer.
    ways = [
        ("HAProxy", proxy.target, 1, 1.1),
        ("HAProxy, six callers", proxy.target, 6, 1.5),
        ("round_robin", cluster.client_side, 6, 1.1),
    ]
    for way, address, callers, most in ways:
        before = [one.calls() for one in servers]
        told = cluster.load(address, CALLS // 5, callers=callers).finish()
        assert told["ok"] == told["calls"], told
        ratio = imbalance(servers, before)
        note(f"{tell(told, way)}; max/mean {ratio:.3f}")
        assert ratio <= most, way


def test_python_clients_use_all_servers_alike(cluster: Cluster) -> None:
    servers = cluster.start_servers(3)
    q = np.ones((1, 1, 4, 8), np.float32)
    with AttentionClient(cluster.client_side) as client:

        def reaches_all() -> bool:
            client.attend(q, q, q)
            return all(one.calls() > 0 for one in servers)

        # The first calls go to whoever is connected first.
        until(reaches_all, "a call to each server")
        before = [one.calls() for one in servers]
        for _ in range(90):
            client.attend(q, q, q)
    assert imbalance(servers, before) <= 1.1


def test_a_server_may_come_back_with_another_address(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    """As a container does that is made anew."""
    first, second = cluster.start_servers(2)
    proxy = cluster.start_haproxy()
    first.stop()
    cluster.network.move(first.host)
    first.start()
    seen = proxy.await_state([first.name], up=True)
    note(f"in use {seen:.2f} s after it was ready")
    told = cluster.load(proxy.target, 300).finish()
    assert told["ok"] == told["calls"]
    assert first.calls() >= 50

"""Which server a proxy brings a call to, by its metadata."""

from __future__ import annotations

import json
from typing import Callable

import grpc
import pytest

from attn_client import NotFoundError, UnavailableError
from conftest import Cluster
from plain_client import PlainSession
from waiting import fetch, until

SESSIONS = 12


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_sessions_find_their_server(cluster: Cluster, kind: str) -> None:
    """By the owner's name in x-attn-route, whoever opened them where; or by
    x-attn-session, the same with OpenSession and with steps."""
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy() if kind == "haproxy" else cluster.start_nginx()
    hashed, routed = set(), set()
    with grpc.insecure_channel(proxy.target) as channel:
        for i in range(SESSIONS):
            name = f"sequence {i}"
            session = PlainSession(channel, x_attn_session=name)
            hashed.add(session.owner)
            for _ in range(3):
                session.step(x_attn_session=name)
            session.step(x_attn_route=session.owner, x_attn_session=session.id)
            other = PlainSession(channel)
            routed.add(other.owner)
            for _ in range(4):
                other.step(x_attn_route=other.owner, x_attn_session=other.id)
    names = {one.name for one in servers}
    assert hashed == routed == names
    for server in servers:
        assert all(steps == 4 for steps in server.sessions().values())
    assert sum(len(server.sessions()) for server in servers) == 2 * SESSIONS


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_a_step_that_lands_elsewhere_makes_no_session(
    cluster: Cluster, kind: str
) -> None:
    servers = cluster.start_servers(2)
    proxy = cluster.start_haproxy() if kind == "haproxy" else cluster.start_nginx()
    with grpc.insecure_channel(proxy.target) as channel:
        session = PlainSession(channel)
        other = next(one for one in servers if one.name != session.owner)
        with pytest.raises(NotFoundError) as refused:
            session.step(x_attn_route=other.name)
        assert refused.value.reason == "SESSION_NOT_HERE"
        assert other.sessions() == {}
        session.step(x_attn_route=session.owner)


def test_an_owner_that_is_gone_is_told_as_such(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    """UNAVAILABLE until HAProxy knows, then the answer of a server that has not the
    session; never anything that a client of gRPC cannot read."""
    servers = cluster.start_servers(2)
    proxy = cluster.start_haproxy()
    with grpc.insecure_channel(proxy.target) as channel:
        session = PlainSession(channel)
        owner = next(one for one in servers if one.name == session.owner)
        owner.kill()
        with pytest.raises(UnavailableError) as unavailable:
            session.step(x_attn_route=session.owner)
        proxy.await_state([owner.name], up=False, backend="attn_owner")
        with pytest.raises(NotFoundError) as elsewhere:
            session.step(x_attn_route=session.owner)
        assert elsewhere.value.reason == "SESSION_NOT_HERE"
        for server in servers:
            server.close()
        proxy.await_state([one.name for one in servers], up=False)
        with pytest.raises(grpc.RpcError) as none:
            PlainSession(channel)
    assert none.value.code() is grpc.StatusCode.UNAVAILABLE
    assert none.value.details() == "no server takes the call"
    note(f"said: {unavailable.value.message}; {none.value.details()}")


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_the_page_is_there_too(cluster: Cluster, kind: str) -> None:
    cluster.start_servers(2)
    proxy = cluster.start_haproxy() if kind == "haproxy" else cluster.start_nginx()
    page = f"http://{proxy.host.address}:8000"
    until(lambda: "<html" in fetch(page), "the page")
    info = json.loads(fetch(f"{page}/v1/server_info"))
    assert "limits" in info

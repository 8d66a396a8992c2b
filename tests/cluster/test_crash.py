"""A server that is killed under load."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

import numpy as np
import pytest

from attn_client import Session
from conftest import Cluster
from load import digests, undisturbed
from server import await_tokens
from test_restart import CALLS, tell
from waiting import until

STEPS = 300
HEADS, DIM = 2, 16


def test_no_call_is_lost_with_a_server(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    loads = {
        "through HAProxy": cluster.load(proxy.target, CALLS // 2),
        "round_robin": cluster.load(cluster.client_side, CALLS // 2),
        "HAProxy, without retries": cluster.load(
            proxy.target, CALLS // 10, callers=2, retries=False
        ),
        "round_robin, without retries": cluster.load(
            cluster.client_side, CALLS // 10, callers=2, retries=False
        ),
    }
    before = servers[0].calls()
    until(lambda: servers[0].calls() > before, "it is under load")
    servers[0].kill()
    down = proxy.await_state([servers[0].name], up=False)
    told = {who: load.finish() for who, load in loads.items()}
    note(f"DOWN after {down:.2f} s; {proxy.retries():.0f} retries of HAProxy")
    for who, one in told.items():
        note(tell(one, who))
        assert one["wrong"] == 0 and set(one["failed"]) <= {"UNAVAILABLE"}, one
    for who in ("through HAProxy", "round_robin"):
        assert told[who]["ok"] == told[who]["calls"], told[who]


@pytest.mark.parametrize("way", ["through the proxy", "to the owner"])
def test_sessions_outlive_their_server(
    cluster: Cluster, note: Callable[[str], None], way: str
) -> None:
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    through = way == "through the proxy"
    addresses = [proxy.target] if through else [one.target for one in servers]
    # Without a proxy the first address has them all.
    decodes = cluster.decodes(addresses, 6, through_proxy=through, pause_ms=5)
    decodes.step(10)
    owned = servers[0].sessions()
    assert owned
    decodes.begin(STEPS)
    await_tokens(servers, 30)
    servers[0].kill()
    told = decodes.await_told()
    moves = sum(one["moves"] for one in told)
    note(f"{way}: {moves} of 6 sessions moved, longest step "
         f"{max(one['longest_ms'] for one in told):.0f} ms")  # fmt: skip
    assert not any(one["failures"] for one in told), told
    # No other session moved.
    assert moves == len(owned)
    assert digests(told) == undisturbed(servers[1].target, 6, 10 + STEPS)


def tokens(count: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(9)
    return random.standard_normal((count, 3, 1, HEADS, 1, DIM), dtype=np.float32)


def decode(session: Session, rows: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return [session.step(q, k, v) for q, k, v in rows]


def attention(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the last token sees, in double: [heads, dim]."""
    wide = rows.astype(np.float64)
    q = wide[-1, 0, 0, :, 0]
    k, v = wide[:, 1, 0, :, 0], wide[:, 2, 0, :, 0]
    scores = np.einsum("hd,thd->ht", q, k) / np.sqrt(DIM)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ht,thd->hd", weights, v))


@pytest.mark.parametrize("way", ["through the proxy", "to the owner"])
def test_python_sessions_outlive_their_server(
    cluster: Cluster, note: Callable[[str], None], way: str
) -> None:
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    through = way == "through the proxy"
    addresses = [proxy.target] if through else [one.target for one in servers]
    rows = tokens(60)
    kind: dict[str, Any] = {"q_heads": HEADS, "q_dim": DIM, "causal": True}
    with Session(servers[1].target, **kind) as undisturbed_one:
        want = decode(undisturbed_one, rows)
    with Session(addresses, through_proxy=through, **kind) as session:
        got = decode(session, rows[:20])
        owner = next(one for one in servers if session.id in one.sessions())
        killer = threading.Timer(0.05, owner.kill)
        killer.start()
        start = time.monotonic()
        got += decode(session, rows[20:])
        killer.join()
        got += decode(session, rows[:1])
        took = time.monotonic() - start
        note(f"{way}: {session.moves} move, {took:.2f} s for 41 steps")
        assert session.moves == 1
    for i, (one, other) in enumerate(zip(want, got)):
        assert one.tobytes() == other.tobytes(), i
    assert np.abs(got[59][0, :, 0] - attention(rows)).max() < 1e-5

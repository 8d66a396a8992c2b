"""Servers that are restarted one after the other, under load."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any, Callable

from conftest import Cluster
from load import CallLoad, digests, undisturbed
from proxy import HAProxy
from server import Server, await_tokens, timed_stop
from waiting import until

CALLS = int(os.environ.get("ATTN_CLUSTER_CALLS", "10000"))
# Of sessions that decode while servers are restarted.
SESSIONS = 6
PAUSED = 4


def restart(server: Server, proxy: HAProxy) -> tuple[float, float]:
    """As an orchestrator does: the next one only when this one has calls again.
    Seconds until the proxy knew that it drains, and until it had ended."""
    start = time.monotonic()
    server.drain()
    down = proxy.await_state([server.name], up=False)
    server.await_end()
    ended = time.monotonic() - start
    server.start()
    proxy.await_state([server.name], up=True)
    return down, ended


def rolling_restart(servers: list[Server], proxy: HAProxy) -> str:
    times = [restart(server, proxy) for server in servers]
    down = ", ".join(f"{one:.2f}" for one, _ in times)
    ended = ", ".join(f"{one:.1f}" for _, one in times)
    return f"NOT_SERVING seen after {down} s, ended after {ended} s"


def tell(told: dict[str, Any], who: str) -> str:
    return (
        f"{who}: {told['calls']} calls in {told['seconds']:.0f} s, lost "
        f"{sum(told['failed'].values())} {told['failed'] or ''} wrong {told['wrong']}, "
        f"p50 {told['p50_ms']:.1f} ms, p99 {told['p99_ms']:.1f} ms, "
        f"longest {told['longest_ms']:.0f} ms"
    )


def test_a_rolling_restart_loses_no_call(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    servers = cluster.start_servers(3)
    proxy = cluster.start_haproxy()
    before = proxy.attempts()
    loads: dict[str, CallLoad] = {
        "client as shipped": cluster.load(proxy.target, CALLS),
        "without retries": cluster.load(
            proxy.target, CALLS // 10, callers=2, retries=False
        ),
    }
    times = rolling_restart(servers, proxy)
    told = {who: load.finish() for who, load in loads.items()}
    calls = sum(one["calls"] for one in told.values())
    note(f"{times}; {proxy.attempts() - before - calls:.0f} retries of the client, "
         f"{proxy.retries():.0f} of HAProxy")  # fmt: skip
    for who, one in told.items():
        note(tell(one, who))
    shipped = told["client as shipped"]
    assert shipped["ok"] == shipped["calls"] >= CALLS, shipped
    plain = told["without retries"]
    # These were not promised to come through; but nothing wrong may.
    assert plain["wrong"] == 0 and set(plain["failed"]) <= {"UNAVAILABLE"}, plain


def test_sessions_outlive_a_rolling_restart(
    cluster: Cluster, note: Callable[[str], None], tmp_path: pathlib.Path
) -> None:
    """Those that decode all the while go on elsewhere by a replay; those that pause
    are on disk, and come back where they were."""
    servers = cluster.start_servers(
        3, f"--session-dir={tmp_path}/{{name}}", "--session-spill-after=0s"
    )
    proxy = cluster.start_haproxy()
    proxy.await_state([one.name for one in servers], up=True, backend="attn_owner")
    busy = cluster.decodes(
        [proxy.target], SESSIONS, through_proxy=True, pause_ms=15
    )
    paused = cluster.decodes([proxy.target], PAUSED, through_proxy=True)
    paused.step(40)
    steps = 0
    for server in servers:
        busy.begin(400)
        steps += 400
        await_tokens(servers, 10)
        restart(server, proxy)
        proxy.await_state([server.name], up=True, backend="attn_owner")
        told = busy.await_told()
    back = paused.step(40)
    moves = [one["moves"] for one in told]
    longest = max(one["longest_ms"] for one in told)
    note(f"{SESSIONS} sessions that decode: {sum(moves)} moves, longest step "
         f"{longest:.0f} ms; {PAUSED} that pause: "
         f"{sum(one['moves'] for one in back)} moves")  # fmt: skip
    assert not any(one["failures"] for one in told + back), (told, back)
    assert all(one["moves"] == 0 for one in back), back
    # Who began on a server that was restarted has left it.
    assert sum(moves) >= 1, told
    quiet = servers[0].target
    assert digests(told) == undisturbed(quiet, SESSIONS, steps)
    assert digests(back) == undisturbed(quiet, PAUSED, 80)


def test_a_draining_owner_keeps_its_sessions_until_it_is_gone(
    cluster: Cluster, note: Callable[[str], None]
) -> None:
    """While its health is NOT_SERVING it gets steps of its sessions through the
    proxy, and no new calls."""
    # Time for all that follows on a machine that is busy.
    first, second = cluster.start_servers(2, "--drain-delay=8s")
    proxy = cluster.start_haproxy()
    decodes = cluster.decodes([proxy.target], 4, through_proxy=True)
    decodes.step(1)
    owned = set(first.sessions())
    assert owned and set(second.sessions()), "each server has some of the sessions"
    calls = cluster.load(proxy.target, 1)
    first.drain()
    down = proxy.await_state([first.name], up=False)
    attended = first.calls()
    told = decodes.step(3)
    assert proxy.is_up(first.name, backend="attn_owner")
    assert all(one["moves"] == 0 for one in told), told
    assert all(length == 4 for length in first.sessions().values())
    assert first.calls() - attended <= 8, "no new calls but those that were on their way"
    first.await_end()
    told = decodes.step(3)
    assert calls.finish()["failed"] == {}
    note(f"NOT_SERVING seen after {down:.2f} s; longest step while the owner ended "
         f"{max(one['longest_ms'] for one in told):.0f} ms")  # fmt: skip
    assert sum(one["moves"] for one in told) == len(owned), told
    assert not any(one["failures"] for one in told), told
    assert len(second.sessions()) == 4
    assert digests(told) == undisturbed(second.target, 4, 7)

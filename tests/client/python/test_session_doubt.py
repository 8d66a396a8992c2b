"""Answers of a session that are lost: it goes on, whatever the server made of them."""

from __future__ import annotations

import grpc
import pytest

from attn_client import AttnError, DeadlineExceededError, UnavailableError
from decodes import Decode
from session_proxy import LATE, LOSE, SWALLOW, status


@pytest.fixture
def decode(rng):
    return Decode(rng)


def other(rows):
    """A step that is not that one."""
    return tuple(tensor + 1 for tensor in rows)


def fail_late(call, *rows, **options):
    with pytest.raises(DeadlineExceededError):
        call(*rows, **options)


def test_a_late_rollback_counts(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Rollback", LATE)
        fail_late(session.rollback, 5)
        assert session.length() == 5
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)
        assert session.moves == 0


def test_a_rollback_that_was_never_made_is_made_before_the_next_call(proxy, decode):
    flaky = proxy()
    never = status(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Rollback", never, never)
        fail_late(session.rollback, 5)
        fail_late(session.step, *decode.rows(5, 6))
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)
        assert session.moves == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda session, decode: session.rollback(3),
        lambda session, decode: session.fork(3).close(),
        lambda session, decode: list(session.steps([decode.rows(5, 9)])),
    ],
    ids=["rollback", "fork", "steps"],
)
@pytest.mark.parametrize("method", ["Rollback", "Step"])
def test_every_call_can_follow_a_late_one(proxy, decode, method, call):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 5))
        flaky.plan(method, LATE)
        if method == "Step":
            fail_late(session.step, *other(decode.rows(5, 7)))
        else:
            fail_late(session.rollback, 5)
        call(session, decode)
        begin = session.length()
        decode.check(session.step(*decode.rows(begin, 24)), begin, 24)
        assert session.info().lengths == (24,)
        assert session.moves == 0


def test_a_rollback_that_is_refused_changes_nothing(proxy, decode):
    flaky = proxy()
    refused = status(grpc.StatusCode.FAILED_PRECONDITION, "its keys are gone")
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Rollback", refused)
        with pytest.raises(AttnError, match="its keys are gone"):
            session.rollback(5)
        assert session.length() == 9
        decode.check(session.step(*decode.rows(9, 24)), 9, 24)
        assert session.moves == 0


def test_a_rollback_that_is_refused_after_a_late_one_is_a_replay(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan(
            "Rollback",
            status(grpc.StatusCode.DEADLINE_EXCEEDED, "late"),
            status(grpc.StatusCode.FAILED_PRECONDITION, "its keys are gone"),
        )
        fail_late(session.rollback, 5)
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)
        assert session.moves == 1


def test_a_rollback_at_a_server_that_dies_is_a_replay(start_server, server, decode):
    dying = start_server()
    with decode.open([dying.address, server.address]) as session:
        session.step(*decode.rows(0, 9))
        dying.kill()
        session.rollback(5)
        assert (session.moves, session.address) == (1, server.address)
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)


def test_a_lost_rollback_that_nobody_else_takes_is_asked_for_again(proxy, decode):
    flaky = proxy()
    full = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room", "KV_MEMORY")
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Rollback", *[LOSE] * 4)
        flaky.plan("OpenSession", full)
        with pytest.raises(UnavailableError, match="no other server took"):
            session.rollback(5)
        assert session.length() == 5
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)
        assert session.moves == 0


def test_a_late_step_again_is_answered_once(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Step", LATE)
        fail_late(session.step, *decode.rows(9, 11))
        assert session.length() == 9
        decode.check(session.step(*decode.rows(9, 11)), 9, 11)
        assert "Rollback" not in flaky.calls
        assert session.info().lengths == (11,)
        decode.check(session.step(*decode.rows(11, 24)), 11, 24)


def test_another_step_after_a_late_one(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Step", LATE)
        fail_late(session.step, *other(decode.rows(9, 13)))
        decode.check(session.step(*decode.rows(9, 10)), 9, 10)
        decode.check(session.step(*decode.rows(10, 24)), 10, 24)
        assert session.moves == 0


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_late_step_of_a_shorter_layer(proxy, rng, rolled_back):
    decode = Decode(rng, layers=2)
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9, 0), layers=0)
        flaky.plan("Step", LATE)
        fail_late(session.step, *other(decode.rows(0, 4, 1)), layers=1)
        if rolled_back:
            session.rollback(9)
        # No rollback takes these four tokens without some of the other layer's.
        decode.check(session.step(*decode.rows(0, 24, 1), layers=1), 0, 24, 1)
        decode.check(session.step(*decode.rows(9, 24, 0), layers=0), 9, 24, 0)
        assert session.info().lengths == (24, 24)
        assert session.moves == 1
    # The session that was left was closed.
    assert flaky.calls.count("CloseSession") == 2


def test_a_step_that_is_interrupted_is_in_doubt(proxy, decode, monkeypatch):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 9))
        place = type(session._state.place)
        made = place.step

        def interrupted(*arguments):
            made(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(place, "step", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.step(*other(decode.rows(9, 13)))
        decode.check(session.step(*decode.rows(9, 24)), 9, 24)


@pytest.mark.parametrize("same", [False, True])
def test_a_stream_that_ends_in_doubt(proxy, decode, same):
    flaky = proxy()
    flaky.plan("StepStream", SWALLOW, SWALLOW)
    with decode.open(flaky.address) as session:
        drawn = [decode.rows(0, 3), decode.rows(3, 5)]
        if not same:
            drawn = [other(rows) for rows in drawn]
        with pytest.raises(DeadlineExceededError):
            list(session.steps(drawn, timeout=0.5))
        assert session.length() == 0
        decode.check(session.step(*decode.rows(0, 3)), 0, 3)
        decode.check(session.step(*decode.rows(3, 24)), 3, 24)
        assert session.info().lengths == (24,)


def test_one_cancelled_call_is_made_again_where_it_was(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        flaky.plan("Step", status(grpc.StatusCode.CANCELLED, "going"))
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)
        assert session.moves == 0

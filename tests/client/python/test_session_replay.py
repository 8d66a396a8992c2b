"""A session that outlives its server: outputs as if nothing had happened."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from attn_client import (
    AttentionClient,
    AttnError,
    InvalidArgumentError,
    NotFoundError,
    Session,
    UnavailableError,
    to_bfloat16,
)
from decodes import Decode
from session_proxy import LOSE, busy, status


@pytest.fixture
def decode(rng):
    return Decode(rng)


def close_behind_its_back(session):
    with AttentionClient(session.address) as client:
        assert client.close_session(session.id)


@pytest.mark.parametrize("kv_dtype", ["float32", "bfloat16", "int8"])
def test_a_killed_server_changes_no_bit(start_server, server, rng, kv_dtype):
    decode = Decode(rng, layers=2)
    dying = start_server()
    with decode.open(server.address, kv_dtype=kv_dtype) as undisturbed:
        with decode.open([dying.address, server.address], kv_dtype=kv_dtype) as session:
            assert session.address == dying.address
            for begin, end in ((0, 9), (9, 10), (10, 11), (11, 24)):
                if begin == 10:
                    dying.kill()
                rows = decode.all_rows(begin, end)
                outputs = session.step(*rows, layers=decode.layers)
                expected = undisturbed.step(*rows, layers=decode.layers)
                for layer in decode.layers:
                    assert outputs[layer].tobytes() == expected[layer].tobytes()
                    if kv_dtype == "float32":
                        decode.check(outputs[layer], begin, end, layer)
            assert session.address == server.address
            assert session.moves == 1
            assert session.info().lengths == (24, 24)


def test_layers_of_unequal_lengths_are_replayed(server, rng):
    decode = Decode(rng, layers=3)
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9, 0), layers=0)
        session.step(*decode.rows(0, 4, 2), layers=2)
        close_behind_its_back(session)
        decode.check(session.step(*decode.rows(4, 24, 2), layers=2), 4, 24, 2)
        assert session.info().lengths == (9, 0, 24)
        decode.check(session.step(*decode.rows(9, 24, 0), layers=0), 9, 24, 0)


def test_a_long_history_goes_in_parts(server, rng):
    # 1300 tokens are more than one part has.
    decode = Decode(rng, layers=2, tokens=1301)
    with decode.open(server.address) as session:
        session.step(*decode.all_rows(0, 1300), layers=[0, 1])
        close_behind_its_back(session)
        outputs = session.step(*decode.all_rows(1300, 1301), layers=[0, 1])
        assert session.moves == 1
        for layer in decode.layers:
            decode.check(outputs[layer], 1300, 1301, layer)


def test_rows_of_several_dtypes_are_replayed_as_they_came(server, decode):
    q, k, v = decode.rows(0, 24)
    kinds = [np.float32, np.float16, to_bfloat16, np.float64, np.float32]

    def steps(session, interrupted):
        outputs = []
        for i, kind in enumerate(kinds):
            cast = kind if kind is to_bfloat16 else lambda t, kind=kind: t.astype(kind)
            rows = [t[:, :, 4 * i : 4 * i + 4] for t in (q, k, v)]
            if interrupted and i == len(kinds) - 1:
                close_behind_its_back(session)
            outputs.append(session.step(rows[0], cast(rows[1]), cast(rows[2])))
        return outputs

    with decode.open(server.address) as one, decode.open(server.address) as other:
        for output, expected in zip(steps(one, True), steps(other, False)):
            assert output.tobytes() == expected.tobytes()
        assert (one.moves, other.moves) == (1, 0)


def test_what_was_rolled_back_is_not_replayed(server, decode):
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9))
        session.step(*(tensor + 1 for tensor in decode.rows(9, 14)))
        session.rollback(9)
        session.step(*decode.rows(9, 12))
        close_behind_its_back(session)
        decode.check(session.step(*decode.rows(12, 24)), 12, 24)


def test_a_rollback_of_a_session_that_is_gone_makes_what_stays(server, decode):
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9))
        close_behind_its_back(session)
        session.rollback(4)
        assert session.moves == 1
        assert session.info().lengths == (4,)
        decode.check(session.step(*decode.rows(4, 24)), 4, 24)


def test_forks_go_on_apart_also_elsewhere(start_server, server, decode):
    dying = start_server()
    with decode.open([dying.address, server.address]) as session:
        session.step(*decode.rows(0, 9))
        with session.fork(7) as fork:
            session.step(*(tensor + 1 for tensor in decode.rows(9, 10)))
            decode.check(fork.step(*decode.rows(7, 8)), 7, 8)
            dying.kill()
            decode.check(fork.step(*decode.rows(8, 24)), 8, 24)
            session.rollback(9)
            decode.check(session.step(*decode.rows(9, 24)), 9, 24)
            assert (session.moves, fork.moves) == (1, 1)


def test_a_session_that_is_gone_is_forked_elsewhere(server, decode):
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9))
        close_behind_its_back(session)
        with session.fork() as fork:
            assert session.moves == 1
            decode.check(fork.step(*decode.rows(9, 24)), 9, 24)


def test_a_lost_answer_is_asked_for_again(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        flaky.plan("Step", LOSE, LOSE)
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)
        assert flaky.calls == ["OpenSession", "Step", "Step", "Step"]
        flaky.plan("Rollback", LOSE)
        session.rollback(5)
        assert session.moves == 0
        decode.check(session.step(*decode.rows(5, 24)), 5, 24)


def test_a_busy_session_is_waited_for_and_not_lost(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        flaky.plan("Step", busy(), busy())
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)
        flaky.plan("Step", *[busy()] * 4)
        with pytest.raises(UnavailableError) as refused:
            session.step(*decode.rows(9, 10))
        assert refused.value.reason == "SESSION_BUSY"
        assert refused.value.retry_after == pytest.approx(0.001)
        assert session.moves == 0
        decode.check(session.step(*decode.rows(9, 10)), 9, 10)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        ("NOT_FOUND", "SESSION_DAMAGED", NotFoundError),
        ("FAILED_PRECONDITION", "SESSION_WRONG_EPOCH", AttnError),
        ("FAILED_PRECONDITION", "SESSION_STEP_GAP", AttnError),
        ("INTERNAL", "", AttnError),
    ],
)
def test_what_the_server_refuses_is_the_callers(proxy, decode, code, reason, error):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        flaky.plan("Step", status(grpc.StatusCode[code], "no", reason))
        with pytest.raises(error) as refused:
            session.step(*decode.rows(0, 1))
        assert refused.value.code is grpc.StatusCode[code]
        assert refused.value.reason == reason
        assert (session.moves, session.length()) == (0, 0)
        decode.check(session.step(*decode.rows(0, 1)), 0, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"\xff", "the answer is malformed"),
        (b"", "answered a step of 1 layers with 0 outputs"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_server(proxy, decode, answer, words):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        flaky.plan("Step", answer)
        with pytest.raises(AttnError, match=words) as failed:
            session.step(*decode.rows(0, 1))
        assert failed.value.code is grpc.StatusCode.INTERNAL
        flaky.plan("StepStream", b"\xff", b"")
        for _ in range(2):
            with pytest.raises(AttnError, match="the answer is malformed") as failed:
                list(session.steps([decode.rows(0, 1)]))
            assert failed.value.code is grpc.StatusCode.INTERNAL
        assert (session.moves, session.length()) == (0, 0)
        decode.check(session.step(*decode.rows(0, 1)), 0, 1)


@pytest.mark.parametrize(
    ("code", "reason", "times"),
    [("NOT_FOUND", "SESSION_EXPIRED", 1), ("CANCELLED", "", 2)],
)
def test_what_is_gone_is_made_again(proxy, decode, code, reason, times):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        session.step(*decode.rows(0, 5))
        flaky.plan("Step", *[status(grpc.StatusCode[code], "gone", reason)] * times)
        decode.check(session.step(*decode.rows(5, 9)), 5, 9)
        assert session.moves == 1


def test_a_step_that_kills_servers_is_not_taken_to_all(proxy, decode):
    flaky = proxy()
    gone = status(grpc.StatusCode.NOT_FOUND, "gone", "SESSION_EXPIRED")
    with decode.open(flaky.address) as session:
        flaky.plan("Step", *[gone] * 4)
        with pytest.raises(NotFoundError, match="gone"):
            session.step(*decode.rows(0, 1))
        assert session.moves == 3
        assert flaky.calls.count("OpenSession") == 4


def test_beyond_its_bound_it_says_that_it_cannot_go_on(server, decode):
    k_and_v = sum(tensor.nbytes for tensor in decode.rows(0, 9)[1:])
    with decode.open(server.address, max_replay_bytes=k_and_v) as session:
        session.step(*decode.rows(0, 9))
        assert session.replay_bytes == k_and_v
        assert session.can_replay
        decode.check(session.step(*decode.rows(9, 10)), 9, 10)
        assert session.replay_bytes == 0
        assert not session.can_replay
        close_behind_its_back(session)
        with pytest.raises(NotFoundError, match=f"max_replay_bytes={k_and_v}") as gone:
            session.step(*decode.rows(10, 11))
        assert gone.value.reason == "SESSION_NOT_HERE"
        assert session.length() == 10
        # What is empty can be had anew.
        session.rollback(0)
        assert session.can_replay
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)


def test_when_all_are_gone_the_next_call_tries_anew(proxy, decode):
    flaky = proxy()
    gone = status(grpc.StatusCode.NOT_FOUND, "it was idle", "SESSION_EXPIRED")
    stopping = status(grpc.StatusCode.UNAVAILABLE, "stopping")
    words = "it was idle; no other server took the session: stopping"
    with decode.open(flaky.address, patience=0) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Step", gone, gone)
        flaky.plan("OpenSession", *[stopping] * 4)
        with pytest.raises(NotFoundError, match=words) as lost:
            session.step(*decode.rows(9, 10))
        assert lost.value.reason == "SESSION_EXPIRED"
        assert (session.moves, session.length()) == (0, 9)
        decode.check(session.step(*decode.rows(9, 10)), 9, 10)
        assert session.moves == 1


def test_who_is_patient_waits_for_a_server_that_starts(proxy, decode):
    flaky = proxy()
    gone = status(grpc.StatusCode.NOT_FOUND, "it was idle", "SESSION_EXPIRED")
    stopping = status(grpc.StatusCode.UNAVAILABLE, "stopping")
    with decode.open(flaky.address, patience=60) as session:
        session.step(*decode.rows(0, 9))
        flaky.plan("Step", gone)
        # Four attempts of each round.
        flaky.plan("OpenSession", *[stopping] * 5)
        decode.check(session.step(*decode.rows(9, 10)), 9, 10)
        assert session.moves == 1


def test_a_server_that_cannot_take_it_all_is_left_with_nothing(
    start_server, server, rng
):
    decode = Decode(rng, tokens=1024)
    dying, small = start_server(), start_server("--max-session-bytes=65536")
    addresses = [dying.address, small.address, server.address]
    with decode.open(addresses) as session:
        session.step(*decode.rows(0, 1000))
        dying.kill()
        decode.check(session.step(*decode.rows(1000, 1024)), 1000, 1024)
        assert session.address == server.address
    with AttentionClient(small.address) as client:
        assert client.sessions() == ()


def test_steps_go_to_the_owner_that_the_server_names(
    start_server, proxy, decode, tmp_path
):
    here = f"unix:{tmp_path}/attn.sock"
    owner = start_server(f"--grpc-address={here}", f"--advertise-address={here}")
    front = proxy(owner.address)
    with decode.open(front.address) as session:
        assert session.address == here
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)
        with session.fork() as fork:
            assert fork.address == here
        close_behind_its_back(session)
        decode.check(session.step(*decode.rows(9, 24)), 9, 24)
    assert front.calls == ["OpenSession", "OpenSession"]


def test_a_proxy_is_told_the_owner_which_is_not_called(start_server, proxy, decode):
    owner = "attn-1.attn:8001"  # Nobody is there.
    front = proxy(start_server(f"--advertise-address={owner}").address)
    with decode.open(front.address, through_proxy=True) as session:
        assert (session.address, session.owner) == (front.address, owner)
        decode.check(session.step(*decode.rows(0, 9)), 0, 9)
        [streamed] = session.steps([decode.rows(9, 12)])
        decode.check(streamed, 9, 12)
        session.rollback(10)
        with session.fork() as fork:
            assert fork.owner == owner
            decode.check(fork.step(*decode.rows(10, 12)), 10, 12)
            named = {session.id, fork.id}
    methods = [method for method in front.calls if method != "OpenSession"]
    assert {"Step", "StepStream", "Rollback", "Fork", "CloseSession"} <= set(methods)
    told = front.routes[1:]
    assert {route["x-attn-route"] for route in told} == {owner}
    assert {route["x-attn-session"] for route in told} == named
    assert front.routes[0] == {}


def test_several_servers_behind_one_address_must_say_which_they_are(server, decode):
    with pytest.raises(AttnError, match="--advertise-address") as raised:
        decode.open(f"ipv4:{server.address}")
    assert raised.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_several_proxies_behind_one_address_may_be_told_no_owner(server, decode):
    with decode.open(f"ipv4:{server.address}", through_proxy=True) as session:
        assert session.owner == ""
        decode.check(session.step(*decode.rows(0, 3)), 0, 3)


def test_an_address_that_cannot_understand_is_not_asked_around(server, proxy):
    flaky = proxy()
    flaky.plan("OpenSession", status(grpc.StatusCode.INVALID_ARGUMENT, "not so"))
    with pytest.raises(InvalidArgumentError, match="not so"):
        Session([flaky.address, flaky.address], q_heads=1, q_dim=4)
    assert flaky.calls == ["OpenSession"]

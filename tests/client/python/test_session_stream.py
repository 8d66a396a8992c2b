"""Session.steps(): many steps over one stream, in order, whatever breaks."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from attn_client import AttnError, DeadlineExceededError, InvalidArgumentError
from decodes import Decode
from session_proxy import LOSE, PASS, SWALLOW, busy, status


@pytest.fixture
def decode(rng):
    return Decode(rng)


def one_by_one(decode, begin, end):
    return (decode.rows(i, i + 1) for i in range(begin, end))


def check_all(decode, outputs, begin, end):
    outputs = list(outputs)
    assert len(outputs) == end - begin
    for i, output in enumerate(outputs):
        decode.check(output, begin + i, begin + i + 1)


@pytest.mark.parametrize("ahead", [1, 2, 5, 100])
def test_outputs_are_those_of_steps(server, decode, ahead):
    with decode.open(server.address) as session:
        decode.check(session.step(*decode.rows(0, 5)), 0, 5)
        check_all(
            decode, session.steps(one_by_one(decode, 5, 20), ahead=ahead), 5, 20
        )
        assert session.length() == 20
        assert session.info().next_step == 16
        decode.check(session.step(*decode.rows(20, 24)), 20, 24)


def test_layers_go_over_a_stream_together(server, rng):
    decode = Decode(rng, layers=2)
    chunks = [(0, 9), (9, 10), (10, 24)]
    with decode.open(server.address) as session:
        drawn = (decode.all_rows(*chunk) for chunk in chunks)
        for chunk, outputs in zip(chunks, session.steps(drawn, layers=[0, 1])):
            for layer in decode.layers:
                decode.check(outputs[layer], *chunk, layer)


def test_a_step_may_depend_on_the_output_before_it(server, decode):
    taken = []

    def drawn():
        for i in range(24):
            assert len(taken) == i
            yield decode.rows(i, i + 1)

    with decode.open(server.address) as session:
        for output in session.steps(drawn(), ahead=1):
            # Nothing is on its way, so that other calls are allowed.
            assert session.info().lengths == (len(taken) + 1,)
            taken.append(output)
    check_all(decode, taken, 0, 24)


def test_arrays_may_change_once_they_are_drawn(server, decode):
    q, k, v = (np.array(tensor) for tensor in decode.rows(0, 1))

    def drawn():
        for i in range(24):
            for own, row in zip((q, k, v), decode.rows(i, i + 1)):
                own[:] = row
            yield q, k, v

    with decode.open(server.address) as session:
        check_all(decode, session.steps(drawn()), 0, 24)


def test_other_calls_wait_for_those_on_their_way(server, decode):
    with decode.open(server.address) as session:
        outputs = session.steps(one_by_one(decode, 0, 24), ahead=3)
        next(outputs)
        for call in (
            lambda: session.step(*decode.rows(1, 2)),
            lambda: session.rollback(0),
            session.fork,
            lambda: session.steps([]),
        ):
            with pytest.raises(AttnError, match="2 steps of a loop") as refused:
                call()
            assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
        check_all(decode, outputs, 1, 24)


def test_of_two_loops_one_is_on_its_way(server, decode):
    with decode.open(server.address) as session:
        one = session.steps(one_by_one(decode, 0, 24), ahead=1)
        other = session.steps(one_by_one(decode, 1, 24), ahead=3)
        decode.check(next(one), 0, 1)
        decode.check(next(other), 1, 2)
        with pytest.raises(AttnError, match="2 steps of a loop"):
            next(one)
        check_all(decode, other, 2, 24)


def test_a_loop_that_is_left_has_what_it_drew(server, decode):
    with decode.open(server.address) as session:
        for output in session.steps(one_by_one(decode, 0, 24), ahead=3):
            decode.check(output, 0, 1)
            break
        assert session.length() == 3
        assert session.info().lengths == (3,)
        decode.check(session.step(*decode.rows(3, 24)), 3, 24)


def test_what_cannot_be_drawn_is_raised_behind_the_answers(server, decode):
    def drawn():
        yield from one_by_one(decode, 0, 3)
        raise KeyError("no more")

    outputs = []
    with decode.open(server.address) as session:
        with pytest.raises(KeyError):
            outputs.extend(session.steps(drawn(), ahead=8))
        assert session.length() == 3
        q, k, v = decode.rows(3, 4)
        with pytest.raises(InvalidArgumentError, match=r"v\[0\].shape"):
            list(session.steps([(q, k, v[0])]))
        with pytest.raises(InvalidArgumentError, match="ahead: got 0"):
            session.steps([], ahead=0)
        with pytest.raises(InvalidArgumentError) as refused:
            list(session.steps([(q, k, v[..., :3]), (q, k, v), (q, k, v)]))
        assert refused.value.field == "v[0].shape"
        decode.check(session.step(q, k, v), 3, 4)


def test_closing_ends_a_loop(server, decode):
    session = decode.open(server.address)
    outputs = session.steps(one_by_one(decode, 0, 24))
    next(outputs)
    session.close()
    with pytest.raises(AttnError, match="the session was closed"):
        next(outputs)


def test_a_busy_session_is_waited_for(proxy, decode):
    flaky = proxy()
    flaky.plan("StepStream", PASS, busy(), busy(), PASS, busy())
    with decode.open(flaky.address) as session:
        check_all(decode, session.steps(one_by_one(decode, 0, 24)), 0, 24)
        assert session.moves == 0
        assert session.info().lengths == (24,)


def test_an_answer_that_is_lost_is_asked_for_again(proxy, decode):
    flaky = proxy()
    flaky.plan("StepStream", PASS, PASS, LOSE, PASS, LOSE)
    with decode.open(flaky.address) as session:
        check_all(decode, session.steps(one_by_one(decode, 0, 24), ahead=1), 0, 24)
        assert session.moves == 0
        assert session.info().lengths == (24,)


def test_answers_that_nobody_can_give_are_computed_elsewhere(proxy, decode):
    flaky = proxy()
    # Steps 2, 3 and 4 are made: of those the server could repeat the last alone.
    flaky.plan("StepStream", PASS, PASS, SWALLOW, SWALLOW, LOSE)
    with decode.open(flaky.address) as session:
        first = session.id
        check_all(decode, session.steps(one_by_one(decode, 0, 24), ahead=6), 0, 24)
        assert session.moves == 1
        assert session.id != first
        assert session.info().lengths == (24,)
    # The first was left, and closed so as not to lie about.
    assert flaky.calls.count("CloseSession") == 2


def test_a_server_that_dies_is_survived(start_server, server, decode):
    dying = start_server()
    with decode.open([dying.address, server.address]) as session:

        def drawn():
            for i in range(24):
                if i == 11:
                    dying.kill()
                yield decode.rows(i, i + 1)

        check_all(decode, session.steps(drawn()), 0, 24)
        assert session.moves == 1
        assert session.address == server.address


def test_an_error_of_a_step_ends_the_loop_behind_it(proxy, decode):
    flaky = proxy()
    refused = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room", "KV_MEMORY")
    flaky.plan("StepStream", PASS, PASS, refused)
    outputs = []
    with decode.open(flaky.address) as session:
        with pytest.raises(AttnError, match="no room") as full:
            for output in session.steps(one_by_one(decode, 0, 24), ahead=3):
                outputs.append(output)
        assert full.value.reason == "KV_MEMORY"
        check_all(decode, outputs, 0, 2)
        assert session.length() == 2
        assert session.info().lengths == (2,)
        check_all(decode, session.steps(one_by_one(decode, 2, 24)), 2, 24)


def test_an_answer_that_does_not_come_is_late(proxy, decode):
    flaky = proxy()
    with decode.open(flaky.address) as session:
        decode.check(session.step(*decode.rows(0, 1)), 0, 1)
        flaky.plan("StepStream", SWALLOW)
        with pytest.raises(DeadlineExceededError, match="no answer from"):
            list(session.steps([decode.rows(1, 2)], timeout=0.5))
        assert session.length() == 1
        # Whether the server has the step or not, the same again is answered.
        decode.check(session.step(*decode.rows(1, 2)), 1, 2)
        assert session.info().lengths == (2,)

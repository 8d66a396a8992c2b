"""Session: outputs by the formula, whatever the steps are, and errors by reason."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

import formulas as f
from attn_client import (
    AttentionClient,
    AttnError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    Session,
    UnavailableError,
    from_bfloat16,
    to_bfloat16,
)
from attn_client.v1 import attention_pb2 as pb
from attn_client.v1 import session_pb2
from decodes import DIM, KV_HEADS, Q_HEADS, V_DIM, Decode


@pytest.fixture
def decode(rng):
    return Decode(rng)


@pytest.mark.parametrize("cuts", [[24], [1] * 24, [9, 1, 1, 13], [23, 1]])
def test_every_chunking_is_the_whole_call(server, decode, cuts):
    begin = 0
    with decode.open(server.address) as session:
        for cut in cuts:
            output = session.step(*decode.rows(begin, begin + cut))
            decode.check(output, begin, begin + cut)
            begin += cut
            assert session.length() == begin
        assert session.report.kernel
        assert session.moves == 0


def test_without_a_mask_a_step_sees_its_own_tokens_too(server, rng):
    q, k, v = (f.draw(rng, 1, 2, 5, 8) for _ in range(3))
    with Session(server.address, q_heads=2, q_dim=8) as session:
        output = session.step(q, k, v)
    expected = f.weigh(f.softmax(f.scores(q, k)), v)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def test_many_layers_in_one_step(server, rng):
    decode = Decode(rng, layers=3)
    with decode.open(server.address) as session:
        for begin, end in ((0, 10), (10, 11), (11, 24)):
            outputs = session.step(*decode.all_rows(begin, end), layers=decode.layers)
            for layer in decode.layers:
                decode.check(outputs[layer], begin, end, layer)


def test_layers_by_name(server, rng):
    decode = Decode(rng, layers=3)
    with decode.open(server.address) as session:
        for begin, end in ((0, 4), (4, 24)):
            rows = {layer: decode.rows(begin, end, layer) for layer in (2, 0)}
            outputs = session.step_layers(rows)
            assert list(outputs) == [2, 0]
            for layer, output in outputs.items():
                decode.check(output, begin, end, layer)
        assert [session.length(layer) for layer in range(3)] == [24, 0, 24]
        with pytest.raises(InvalidArgumentError, match="layers: got none"):
            session.step_layers({})


def test_some_layers_in_any_order(server, rng):
    decode = Decode(rng, layers=3)
    with decode.open(server.address) as session:
        rows = [decode.rows(0, 4, layer) for layer in (2, 0)]
        last, first = session.step(*zip(*rows), layers=[2, 0])
        decode.check(last, 0, 4, 2)
        decode.check(first, 0, 4, 0)
        assert [session.length(layer) for layer in range(3)] == [4, 0, 4]
        decode.check(session.step(*decode.rows(0, 4, 1), layers=1), 0, 4, 1)


def test_a_layout_is_that_of_the_output_too(server, decode):
    with decode.open(server.address) as session:
        for begin, end in ((0, 7), (7, 8)):
            rows = (tensor.swapaxes(1, 2) for tensor in decode.rows(begin, end))
            output = session.step(*rows, layout="bshd")
            assert output.shape == (1, end - begin, Q_HEADS, V_DIM)
            decode.check(output.swapaxes(1, 2), begin, end)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_output_has_the_dtype_of_q(server, decode, dtype):
    narrow, wide, unit = {
        "float16": (lambda x: x.astype(np.float16), np.float64, 2**-11),
        "bfloat16": (to_bfloat16, from_bfloat16, 2**-9),
    }[dtype]
    decode.q[0] = wide(narrow(decode.q[0]))
    q, k, v = decode.rows(0, 24)
    with decode.open(server.address) as session:
        output = session.step(narrow(q), k, v)
    assert output.dtype == narrow(q).dtype
    expected = decode.expected(0, 24)
    np.testing.assert_allclose(wide(output), expected, rtol=2 * unit, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "word", "keep"),
    [
        ("float32", "F32", np.asarray),
        (np.float16, "F16", lambda x: x.astype(np.float16)),
        ("bfloat16", "BF16", lambda x: from_bfloat16(to_bfloat16(x))),
    ],
)
def test_k_and_v_are_kept_rounded_once(server, decode, dtype, word, keep):
    with decode.open(server.address, kv_dtype=dtype) as session:
        assert session.info().kv_dtype == word
        for begin, end in ((0, 11), (11, 12), (12, 24)):
            output = session.step(*decode.rows(begin, end))
            expected = decode.expected(begin, end, keep=keep)
            np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


def test_int8_is_within_half_a_step_of_each_row(server, decode):
    def half_step(rows):
        return np.abs(rows).max() / 127 / 2

    q, k, v = decode.rows(0, 24)
    with decode.open(server.address, kv_dtype="int8") as session:
        assert session.info().kv_dtype == "I8"
        output = session.step(q, k, v)
    # Logits move by d at most, so that weights change by a factor of exp(2 d).
    d = np.abs(q).sum(-1).max() * half_step(k) / np.sqrt(DIM)
    bound = np.expm1(2 * d) * np.abs(v).max() + half_step(v)
    off = np.abs(output - decode.expected(0, 24)).max()
    assert 1e-5 < off <= bound


def test_the_options_of_a_call_are_those_of_a_session(server, client, rng):
    q, k, v = (f.draw(rng, 1, 2, 9, 8) for _ in range(3))
    options = {"causal": True, "window": (3, 0), "scale": 0.5, "softcap": 2.0}
    sink = np.array([0.5, -1.0], np.float32)
    spec = pb.AttentionSpec()
    spec.temperatures.append(1.5)
    with Session(
        server.address, q_heads=2, q_dim=8, spec=spec, sink=sink, **options
    ) as session:
        tokens = (tuple(t[:, :, i : i + 1] for t in (q, k, v)) for i in range(9))
        stepped = [session.step(*rows) for rows in tokens]
    distance = np.arange(9)[:, None] - np.arange(9)
    visible = (distance >= 0) & (distance <= 3)
    logits = 2.0 * np.tanh(f.scores(q, k, 0.5) / 2.0)
    logits = f.exclude(logits, visible) / 1.5
    peak = np.exp(logits)
    weights = peak / (peak.sum(-1, keepdims=True) + np.exp(sink)[None, :, None, None])
    np.testing.assert_allclose(
        np.concatenate(stepped, 2), f.weigh(weights, v), rtol=1e-5, atol=1e-5
    )


def test_a_rollback_forgets_and_the_same_again_is_the_same(server, decode):
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 8))
        epoch = session.epoch
        before = session.step(*decode.rows(8, 10))
        # Speculation that was not accepted: other tokens than those that come.
        session.rollback(8)
        session.step(*(tensor + 1 for tensor in decode.rows(8, 13)))
        session.rollback(8)
        assert session.length() == 8
        assert session.epoch > epoch
        after = session.step(*decode.rows(8, 10))
        assert after.tobytes() == before.tobytes()
        decode.check(session.step(*decode.rows(10, 24)), 10, 24)


def test_a_rollback_cuts_every_layer_that_is_longer(server, rng):
    decode = Decode(rng, layers=2)
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9, 0), layers=0)
        session.step(*decode.rows(0, 4, 1), layers=1)
        session.rollback(6)
        assert [session.length(0), session.length(1)] == [6, 4]
        assert session.info().lengths == (6, 4)
        with pytest.raises(InvalidArgumentError, match="got 7, expected 0 to 6"):
            session.rollback(7)


def test_forks_go_their_own_ways(server, decode):
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 9))
        with session.fork() as whole, session.fork(5) as part:
            assert len({session.id, whole.id, part.id}) == 3
            session.step(*(tensor + 1 for tensor in decode.rows(9, 12)))
            decode.check(whole.step(*decode.rows(9, 24)), 9, 24)
            assert (session.length(), whole.length(), part.length()) == (12, 24, 5)
            decode.check(part.step(*decode.rows(5, 24)), 5, 24)
            with pytest.raises(InvalidArgumentError, match="got 25, expected 0 to 24"):
                whole.fork(25)


def test_a_fork_outlives_the_session_that_it_is_of(server, decode):
    session = decode.open(server.address)
    session.step(*decode.rows(0, 9))
    fork = session.fork()
    session.close()
    with fork:
        decode.check(fork.step(*decode.rows(9, 24)), 9, 24)


def test_the_server_lists_and_describes(start_server, decode):
    own = start_server()
    with AttentionClient(own.address) as client:
        assert client.sessions() == ()
        with decode.open(own.address, max_tokens=99, idle_timeout=33) as session:
            session.step(*decode.rows(0, 3))
            info = session.info()
            assert (info.session_id, info.epoch) == (session.id, session.epoch)
            assert (info.next_step, info.lengths) == (1, (3,))
            assert (info.q_heads, info.kv_heads) == (Q_HEADS, KV_HEADS)
            assert (info.q_dim, info.k_dim, info.v_dim) == (DIM, DIM, V_DIM)
            assert (info.max_tokens, info.idle_timeout_ms) == (99, 33000)
            assert info.bytes >= 3 * KV_HEADS * (DIM + V_DIM) * 4
            assert "causal" in info.pipeline
            assert client.session(session.id).lengths == (3,)
            with session.fork() as fork:
                ids = [each.session_id for each in client.sessions()]
                assert ids == sorted([session.id, fork.id])
        assert client.sessions() == ()
        assert not client.close_session(info.session_id)
        with pytest.raises(NotFoundError) as gone:
            client.session(info.session_id)
        assert gone.value.reason == "SESSION_NOT_HERE"


def test_more_sessions_than_a_page_of_them_has(start_server):
    own = start_server()
    opened = [Session(own.address, q_heads=1, q_dim=4) for _ in range(103)]
    with AttentionClient(own.address) as client:
        listed = [info.session_id for info in client.sessions()]
    assert listed == sorted(session.id for session in opened)
    for session in opened:
        session.close()


def step_by_hand(session, number, layers, q, k, v):
    """The outputs of a step that `session` does not know of."""

    def tensors(rows):
        return [
            pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=t.shape, data=t.tobytes())
            for t in rows
        ]

    request = session_pb2.StepRequest(
        session_id=session.id,
        epoch=session.epoch,
        step=number,
        layers=layers,
        q=tensors(q),
        k=tensors(k),
        v=tensors(v),
    ).SerializeToString()
    with grpc.insecure_channel(session.address) as channel:
        step = channel.unary_unary("/attention.v1.SessionService/Step")
        answer = session_pb2.StepResponse.FromString(step(request))
    return [output.data for output in answer.output]


def test_the_same_step_again_is_answered_by_the_same_bytes(server, rng):
    decode = Decode(rng, layers=2)
    with decode.open(server.address) as session:
        rows = decode.all_rows(0, 7)
        outputs = session.step(*rows, layers=[0, 1])
        again = step_by_hand(session, 0, [0, 1], *rows)
        assert [output.tobytes() for output in outputs] == again
        assert session.info().lengths == (7, 7)
        decode.check(session.step(*decode.rows(7, 24, 1), layers=1), 7, 24, 1)


def test_a_rollback_settles_what_the_server_alone_has(server, rng):
    decode = Decode(rng, layers=2)
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 7))
        step_by_hand(session, 1, [1], *([t] for t in decode.rows(0, 7, 1)))
        with pytest.raises(AttnError) as refused:
            session.step(*decode.rows(0, 3, 1), layers=1)
        assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.reason == "SESSION_STEP_REPLACED"
        with pytest.raises(AttnError, match="somebody else") as unknown:
            session.fork()
        assert unknown.value.code is grpc.StatusCode.FAILED_PRECONDITION
        session.rollback(0)
        decode.check(session.step(*decode.rows(0, 9, 1), layers=1), 0, 9, 1)
        with session.fork() as fork:
            assert fork.info().lengths == (0, 9)


def test_a_session_has_no_more_than_its_tokens(server, decode):
    with decode.open(server.address, max_tokens=8) as session:
        session.step(*decode.rows(0, 8))
        with pytest.raises(ResourceExhaustedError) as full:
            session.step(*decode.rows(8, 9))
        assert full.value.reason == "SESSION_FULL"
        assert full.value.retry_after is None
        session.rollback(7)
        decode.check(session.step(*decode.rows(7, 8)), 7, 8)


def test_a_server_without_room(start_server, rng):
    small = start_server("--max-session-bytes=65536")
    decode = Decode(rng, tokens=1024)
    with decode.open(small.address) as session:
        with pytest.raises(ResourceExhaustedError) as full:
            session.step(*decode.rows(0, 1024))
        assert full.value.reason == "KV_MEMORY"
        decode.check(session.step(*decode.rows(0, 3)), 0, 3)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"addresses": []}, "addresses"),
        ({"addresses": ["nowhere"]}, "address"),
        ({"layers": 0}, "layers"),
        ({"q_heads": 3, "kv_heads": 2}, "kv_heads"),
        ({"q_dim": 2**40}, "q_dim"),
        ({"q_dim": 0}, "q_dim"),
        ({"kv_dtype": "float64"}, "kv_dtype"),
        ({"kv_dtype": "complex64"}, "kv_dtype"),
        ({"kv_dtype": "float33"}, "kv_dtype"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"max_replay_bytes": -1}, "max_replay_bytes"),
        ({"timeout": 0}, "timeout"),
        ({"softcap": -1.0}, "spec.softcap"),
        ({"normalizer": "softmin"}, "normalizer"),
        ({"tls_cert": "a.pem"}, "tls_key"),
    ],
)
def test_what_cannot_be_opened_is_named(server, options, field):
    given = {"addresses": server.address, "q_heads": 2, "q_dim": 4, **options}
    with pytest.raises(InvalidArgumentError) as refused:
        Session(**given)
    assert (refused.value.field or "").startswith(field), refused.value


def test_an_option_that_a_session_has_not(server):
    with pytest.raises(TypeError, match=r"Session\(\) .* 'mask'"):
        Session(server.address, q_heads=1, q_dim=4, mask=np.ones((1, 1), bool))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": lambda k: k[:, :, :2]}, "k[0].shape: got [1, 2, 2, 16]"),
        ({"v": lambda v: v[0]}, "v[0].shape: got [2, 3, 8]"),
        ({"q": lambda q: np.concatenate([q, q])}, "q[0].shape: got [2, 4, 3, 16]"),
        ({"v": lambda v: v[..., :5]}, "v[0].shape"),
        ({"q": lambda q: q.astype(np.float64)}, "q"),
        ({"k": lambda k: k.astype(np.int64)}, "k"),
        ({"k": lambda k: k.astype(complex)}, "k[0]: got dtype complex128"),
        ({"layers": 1}, "layers[0]: got 1, expected 0 to 0"),
        ({"layers": -1}, "layers[0]: got -1"),
        ({"layers": []}, "layers: got none"),
        ({"layers": ["a"]}, "layers: expected an index"),
        ({"layers": [0, 0]}, "q: got 1 arrays, expected 2"),
        ({"layout": "sbhd"}, 'expected "bhsd" or "bshd"'),
        ({"priority": "urgent"}, "priority"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_what_does_not_fit_together_is_named(server, decode, change, words):
    q, k, v = decode.rows(0, 3)
    arguments = {"q": q, "k": k, "v": v}
    for name, value in change.items():
        arguments[name] = value(arguments[name]) if callable(value) else value
    with decode.open(server.address) as session:
        with pytest.raises(InvalidArgumentError) as refused:
            session.step(**arguments)
        assert words in refused.value.message
        assert session.length() == 0
        decode.check(session.step(q, k, v), 0, 3)


def test_a_step_of_layers_of_unequal_lengths_is_named(server, rng):
    decode = Decode(rng, layers=2)
    with decode.open(server.address) as session:
        session.step(*decode.rows(0, 2, 1), layers=1)
        with pytest.raises(InvalidArgumentError, match="1, which has 2 tokens") as no:
            session.step(*decode.all_rows(0, 3), layers=[0, 1])
        assert no.value.field == "layers[1]"


def test_a_closed_session_takes_no_more_calls(server, decode):
    session = decode.open(server.address)
    session.close()
    session.close()
    for call in (
        lambda: session.step(*decode.rows(0, 1)),
        lambda: next(session.steps([decode.rows(0, 1)])),
        lambda: session.rollback(0),
        session.fork,
        session.info,
    ):
        with pytest.raises(AttnError, match="the session was closed") as refused:
            call()
        assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_no_server_at_any_address(decode):
    with pytest.raises(UnavailableError, match="no server answers at 127.0.0.1:1"):
        decode.open(["127.0.0.1:1"], timeout=5)

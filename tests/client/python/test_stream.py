"""Calls and answers that are larger than the server's messages."""

from __future__ import annotations

import numpy as np
import pytest

import formulas as f
from attn_client import (
    AttentionClient,
    AttnError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from attn_client.options import build_call
from attn_client.stream import Answer, messages
from attn_client.v1 import attention_pb2 as pb
from attn_client.wire import WireError

LIMIT = 1 << 20


@pytest.fixture(scope="module")
def narrow(start_server):
    server = start_server(f"--max-message-bytes={LIMIT}")
    with AttentionClient(server.address) as client:
        yield client


@pytest.fixture
def large(rng):
    # 2 MiB each, half of it by GQA.
    return (
        f.draw(rng, 2, 4, 1024, 64),
        f.draw(rng, 2, 2, 1024, 64),
        f.draw(rng, 2, 2, 1024, 64),
    )


def expect(result, expected):
    np.testing.assert_allclose(result, expected, rtol=5e-6, atol=5e-6)


def test_a_large_call_goes_in_chunks(narrow, large, rng):
    q, k, v = large
    bias = f.draw(rng, 1024, 1024)
    sink = f.draw(rng, 4)
    logits = f.scores(q, k) + bias
    column = np.broadcast_to(sink[None, :, None, None], (2, 4, 1024, 1))
    weights = f.softmax(np.concatenate([logits, column], -1))[..., :-1]
    result = narrow.attend(
        q, k, v, bias=bias, sink=sink, outputs=("output", "lse", "head_statistics")
    )
    expect(result.output, f.weigh(weights, v))
    expect(result.lse, f.log_sum_exp(logits))
    assert len(result.head_statistics) == 8
    assert result.output.flags.writeable


def test_a_large_answer_of_a_small_call_comes_in_chunks(narrow, rng):
    q, k, v = (f.draw(rng, 1, 1, 1024, 4) for _ in range(3))
    weights = f.softmax(f.exclude(f.scores(q, k), f.top_left(1024, 1024)))
    result = narrow.attend(
        q, k, v, causal=True, outputs=("output", "weights", "row_statistics")
    )
    expect(result.weights, weights)
    expect(result.output, f.weigh(weights, v))
    expect(result.row_statistics.peak_weight, weights.max(-1))


def test_a_large_answer_of_a_ragged_call_comes_in_chunks(narrow, rng):
    q, k, v = (f.draw(rng, 900, 1, 4) for _ in range(3))
    result = narrow.attend(
        q, k, v, q_offsets=[0, 400, 900], kv_offsets=[0, 400, 900],
        outputs=("output", "weights"),
    )  # fmt: skip
    tail = [x[400:].swapaxes(0, 1)[None] for x in (q, k, v)]
    expected = f.weigh(f.softmax(f.scores(*tail[:2])), tail[2])
    expect(result.output[400:].swapaxes(0, 1)[None], expected)


def test_16_bit_tensors_and_other_layouts(narrow, large):
    half = [x.astype(np.float16).swapaxes(1, 2) for x in large]
    result = narrow.attend(*(np.concatenate([x, x]) for x in half), layout="bshd")
    assert result.output.dtype == np.float16
    wide = [x.swapaxes(1, 2) for x in half]
    expected = f.weigh(f.softmax(f.scores(*wide[:2])), wide[2])
    for part in (result.output[:2], result.output[2:]):
        np.testing.assert_allclose(part.swapaxes(1, 2), expected, rtol=2e-3, atol=2e-3)


def test_errors_of_a_stream_are_those_of_a_call(narrow, large):
    q, k, v = large
    with pytest.raises(InvalidArgumentError) as refused:
        narrow.attend(q, k, v[:, :, :-1])
    assert refused.value.field == "v.shape"
    with pytest.raises(DeadlineExceededError):
        narrow.attend(q, k, v, kernel="reference", timeout=0.01)
    expect(narrow.attend(q, k, v).output, f.weigh(f.softmax(f.scores(q, k)), v))


def test_calls_without_a_stream_name_the_limit(narrow, large):
    q, k, v = large
    for call in (
        lambda: narrow.backward(q, k, v, d_output=q),
        lambda: narrow.inspect(q, k, v),
    ):
        with pytest.raises(ResourceExhaustedError) as refused:
            call()
        assert f"expected at most {LIMIT}" in refused.value.message
        assert "--max-message-bytes" in refused.value.message


def test_a_closed_client_says_so_of_a_stream_too(narrow, large):
    with AttentionClient(narrow.address) as client:
        client.attend(*large)
    with pytest.raises(AttnError, match="is closed"):
        client.attend(*large)


def chunk(data: bytes, offset: int = 0, tensor: int = pb.OUTPUT_OUTPUT) -> bytes:
    part = pb.OutputChunk(tensor=tensor, offset=offset, data=data)
    return pb.AttendStreamResponse(chunk=part).SerializeToString()


@pytest.fixture
def answer():
    """An answer whose output of 16 bytes is to come, and whose lse is there."""
    whole = Answer(np.dtype(np.uint16))
    output = pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=[4])
    lse = pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=[1], data=b"\0" * 4)
    header = pb.AttendResponse(output=output, lse=lse)
    whole.take(pb.AttendStreamResponse(header=header).SerializeToString())
    return whole


def test_an_answer_is_complete_when_its_last_byte_is_there(answer):
    numbers = np.arange(4, dtype=np.float32).tobytes()
    answer.take(chunk(numbers[:6]))
    assert not answer.complete
    answer.take(chunk(numbers[6:], 6))
    assert answer.complete
    assert answer.tensors["output"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(chunk(b"abcd"), id="the first again"),
        pytest.param(chunk(b"abcd", 8), id="a hole"),
        pytest.param(chunk(b"abcd", -12), id="a negative offset"),
        pytest.param(chunk(b"x" * 13, 4), id="beyond the end"),
        pytest.param(chunk(b"abcd", 0, pb.OUTPUT_LSE), id="of what came whole"),
        pytest.param(chunk(b"abcd", 0, pb.OUTPUT_WEIGHTS), id="not asked for"),
        pytest.param(chunk(b"abcd", 0, 99), id="of a newer schema"),
    ],
)
def test_chunks_that_do_not_follow_each_other(answer, second):
    answer.take(chunk(b"abcd"))
    with pytest.raises(WireError, match="a chunk of "):
        answer.take(second)


def test_messages_are_of_the_schema_and_within_the_limit(large):
    q, k, v = large
    call = build_call(q, k, v, bias=np.ones((3, 1), np.float32), sink=np.ones(4))
    request = pb.AttendRequest(outputs=[pb.OUTPUT_LSE])
    call.fill(request)
    limit = 65536
    sent = list(messages(request, call, limit, timeout=2.5))
    assert max(len(message) for message in sent) <= limit
    first, *chunks = [pb.AttendStreamRequest.FromString(message) for message in sent]
    assert (first.call, first.timeout_ms, first.max_message_bytes) == (1, 2500, limit)
    assert first.header.outputs == [pb.OUTPUT_LSE]
    assert list(first.header.q.shape) == [2, 4, 1024, 64]
    assert first.header.q.data == b""
    received: dict[tuple[int, int], bytes] = {}
    for message in chunks:
        key = (message.chunk.tensor, message.chunk.index)
        assert message.chunk.offset == len(received.get(key, b""))
        received[key] = received.get(key, b"") + message.chunk.data
    assert received == {
        (pb.TENSOR_SLOT_Q, 0): q.tobytes(),
        (pb.TENSOR_SLOT_K, 0): k.tobytes(),
        (pb.TENSOR_SLOT_V, 0): v.tobytes(),
        (pb.TENSOR_SLOT_INPUT, 0): np.ones(3, np.float32).tobytes(),
        (pb.TENSOR_SLOT_INPUT, 1): np.ones(4).tobytes(),
    }

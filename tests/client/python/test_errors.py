"""What is raised: class, code, field, and one line of text."""

from __future__ import annotations

import socket
from concurrent import futures

import grpc
import numpy as np
import pytest

import formulas as f
from attn_client import (
    AttentionClient,
    AttnError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from attn_client.errors import from_rpc_error, from_status
from attn_client.v1 import attention_pb2 as pb


@pytest.fixture
def qkv(rng):
    return tuple(f.draw(rng, 1, 2, 3, 4) for _ in range(3))


def test_the_server_names_the_field(client, qkv):
    q, k, v = qkv
    with pytest.raises(InvalidArgumentError) as refused:
        client.attend(q, k, v[:, :, :2])
    error = refused.value
    assert isinstance(error, (AttnError, ValueError))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert error.field == "v.shape"
    assert str(error) == error.message
    assert "\n" not in error.message
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"softcap": -1.0}, "spec.softcap", "-1"),
        ({"temperature": 0.0}, "spec.temperatures", "above 0"),
        ({"mask": np.ones((3, 3), np.float32)}, "mask", "floats to add are a bias"),
        ({"bias": np.ones((3, 3), bool)}, "bias", "a bool array is a mask"),
        ({"bias": np.ones((3, 3), complex)}, "bias", "dtype complex128"),
        ({"window": 4}, "window", "(left, right)"),
        ({"alignment": "centre", "causal": True}, "alignment", '"top_left"'),
        ({"alignment": "top_left"}, "alignment", "causal or window"),
        ({"normalizer": "softmin"}, "normalizer", "sparsemax"),
        ({"normalizer": "relu", "sink": [0.0, 0.0]}, "sink", "softmax"),
        ({"layout": "sbhd"}, "layout", '"bhsd" or "bshd"'),
        ({"priority": "urgent"}, "priority", '"high"'),
        ({"outputs": ["colour"]}, "outputs", "masked_logits"),
        ({"scale": "large"}, "options", "large"),
        ({"top_k": 2**70}, "options", "range"),
        ({"kv_lengths": [2.5]}, "options", "float"),
        ({"timeout": 0}, "timeout", "above 0"),
        ({"request_id": "x" * 129}, "request_id", "128"),
    ],
)
def test_bad_options_are_named(client, qkv, options, field, words):
    with pytest.raises(InvalidArgumentError) as refused:
        client.attend(*qkv, **options)
    assert refused.value.field is not None
    assert refused.value.field.startswith(field)
    assert words in refused.value.message


def test_an_option_that_there_is_not(client, qkv):
    with pytest.raises(TypeError, match="is_causal"):
        client.attend(*qkv, is_causal=True)


def test_an_option_that_the_spec_has_already(client, qkv):
    spec = pb.AttentionSpec(softcap=2.0, temperatures=[1.0])
    spec.score.cosine.scale = 3.0
    spec.normalizer.sparsemax.SetInParent()
    for options in (
        {"softcap": 1.0},
        {"scale": 1.0},
        {"temperature": 1.0},
        {"normalizer": "softmax"},
    ):
        with pytest.raises(InvalidArgumentError, match="one of the two"):
            client.attend(*qkv, spec=spec, **options)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.complex64, object])
def test_a_dtype_that_cannot_be_attended(client, qkv, dtype):
    q, k, v = qkv
    with pytest.raises(InvalidArgumentError, match="dtype") as refused:
        client.attend(q.astype(dtype), k, v)
    assert refused.value.field in ("q", "q.dtype")


def test_no_server_at_the_address(qkv):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # It does not listen.
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with AttentionClient(address) as client:
            with pytest.raises(UnavailableError) as refused:
                client.attend(*qkv)
    assert refused.value.message.startswith(f"no server answers at {address} (")
    assert isinstance(refused.value, ConnectionError)


@pytest.mark.parametrize(
    "address",
    ["", "localhost", ":8001", "a:b", "a:0", "a:\u00b2", "unix:", "dns:///:1", "dns:///a"]
    + ["ipv4:a:1", "ipv4:127.0.0.1:1,", "ipv4:[::1]:1", "ipv6:127.0.0.1:1"],
)
def test_an_address_that_is_none(address):
    with pytest.raises(InvalidArgumentError, match="host:port, unix:/path"):
        AttentionClient(address)


@pytest.mark.parametrize("address", ["dns:///{}", "ipv4:{}", "ipv4:{},127.0.0.1:1"])
def test_an_address_of_several_servers(server, qkv, address):
    with AttentionClient(address.format(server.address)) as client:
        assert client.attend(*qkv).output.shape == qkv[0].shape


def test_a_call_that_is_late(client):
    # 2^32 multiplications and additions by plain loops.
    slow = np.zeros((1, 8, 2048, 64))
    with pytest.raises(DeadlineExceededError) as late:
        client.attend(slow, slow, slow, kernel="reference", timeout=0.02)
    assert isinstance(late.value, TimeoutError)


def test_a_closed_client_says_so(server, qkv):
    client = AttentionClient(server.address)
    client.close()
    client.close()
    with pytest.raises(AttnError, match="closed") as refused:
        client.attend(*qkv)
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_a_call_beyond_the_servers_memory(start_server):
    mib = 1 << 20
    small = start_server(f"--max-inflight-bytes={mib}", f"--max-message-bytes={mib}")
    tensor = np.zeros((1, 1, 8192, 64), np.float32)
    with AttentionClient(small.address) as client:
        with pytest.raises(ResourceExhaustedError) as refused:
            client.attend(tensor, tensor, tensor)
    assert "max-inflight-bytes" in refused.value.message
    assert refused.value.retry_after is None


def test_retry_info_is_read(client):
    # google.rpc.RetryInfo of 1.5 s: field 1, a Duration of {1: 1, 2: 500000000}.
    status = pb.CallStatus(code=8, message="full")
    detail = status.details.add()
    detail.type_url = "type.googleapis.com/google.rpc.RetryInfo"
    detail.value = b"\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01"
    error = from_status(status)
    assert isinstance(error, ResourceExhaustedError)
    assert error.retry_after == pytest.approx(1.5)
    assert error.field is None


def test_details_of_another_kind_leave_the_code_and_the_words():
    class Foreign(grpc.RpcError):
        def code(self):
            return grpc.StatusCode.RESOURCE_EXHAUSTED

        def details(self):
            return "slow down"

        def trailing_metadata(self):
            return [("grpc-status-details-bin", b"\xff\xff")]

    error = from_rpc_error(Foreign(), "attn.test:1")
    assert isinstance(error, ResourceExhaustedError)
    assert error.message == "slow down"


def test_a_long_timeout_is_no_short_one(client, qkv):
    # 2^63 nanoseconds, in which gRPC counts, are 9.2e9 seconds.
    assert client.attend(*qkv, timeout=1e10).output is not None


@pytest.fixture
def answering():
    """answering(data): a client of a server that answers every call with data."""
    servers: list[grpc.Server] = []

    def serve(data: bytes) -> AttentionClient:
        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                return grpc.unary_unary_rpc_method_handler(lambda *_: data)

        servers.append(grpc.server(futures.ThreadPoolExecutor(1), [Handler()]))
        port = servers[-1].add_insecure_port("127.0.0.1:0")
        servers[-1].start()
        return AttentionClient(f"127.0.0.1:{port}")

    yield serve
    for server in servers:
        server.stop(None).wait()


F32 = pb.DATA_TYPE_F32


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff",
        pb.AttendResponse(output=pb.Tensor(dtype=F32, shape=[2])),
        pb.AttendResponse(output=pb.Tensor(dtype=F32, shape=[-1], data=b"1234")),
        pb.AttendResponse(
            row_statistics=pb.RowStatistics(
                entropy=pb.Tensor(dtype=F32, shape=[2], data=b"1234")
            )
        ),
    ],
    ids=["no message", "no data", "no shape", "inner tensor"],
)
def test_a_malformed_answer_is_an_error_of_the_server(answering, qkv, answer):
    data = answer if isinstance(answer, bytes) else answer.SerializeToString()
    with answering(data) as client:
        with pytest.raises(AttnError, match="the answer is malformed") as failed:
            client.attend(*qkv)
    assert failed.value.code is grpc.StatusCode.INTERNAL


def test_a_gradient_of_nothing_that_was_sent(answering, qkv):
    gradient = pb.Tensor(dtype=F32, shape=[1], data=b"1234")
    answer = pb.AttendBackwardResponse(gradient_inputs=[3], d_inputs=[gradient])
    with answering(answer.SerializeToString()) as client:
        with pytest.raises(AttnError, match="the answer is malformed"):
            client.backward(*qkv, d_output=qkv[0])


def test_a_code_without_a_class_of_its_own():
    error = from_status(pb.CallStatus(code=12, message="not here"))
    assert type(error) is AttnError
    assert error.code is grpc.StatusCode.UNIMPLEMENTED

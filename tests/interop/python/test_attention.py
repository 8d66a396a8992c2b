"""AttentionService by python3-grpcio and plain stubs of protoc."""

import grpc
import numpy as np
import pytest
from attention.v1 import attention_pb2 as pb
from attention.v1 import attention_pb2_grpc
from formulas import attention

TIMEOUT = 120


@pytest.fixture
def stub(channel):
    return attention_pb2_grpc.AttentionServiceStub(channel)


@pytest.fixture
def qkv():
    rng = np.random.default_rng(3)
    return [rng.standard_normal((2, 3, 6, 8)).astype("<f4") for _ in range(3)]


def tensor(array):
    return pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=array.shape, data=array.tobytes())


def array_of(message):
    return np.frombuffer(message.data, "<f4").reshape(message.shape)


def request_of(qkv):
    q, k, v = (tensor(x) for x in qkv)
    return pb.AttendRequest(q=q, k=k, v=v)


def test_attend(stub, qkv):
    request = request_of(qkv)
    request.spec.masks.add().causal.SetInParent()
    response = stub.Attend(request, timeout=TIMEOUT)
    expected = attention(*qkv, allowed=np.tril(np.ones((6, 6), bool)))
    np.testing.assert_allclose(array_of(response.output), expected, atol=2e-6)


def test_compressed_messages(stub, qkv):
    response = stub.Attend(
        request_of(qkv), timeout=TIMEOUT, compression=grpc.Compression.Gzip
    )
    np.testing.assert_allclose(array_of(response.output), attention(*qkv), atol=2e-6)


def test_a_future_and_its_cancellation(stub, qkv):
    future = stub.Attend.future(request_of(qkv), timeout=TIMEOUT)
    output = array_of(future.result().output)
    np.testing.assert_allclose(output, attention(*qkv), atol=2e-6)
    future = stub.Attend.future(request_of(qkv), timeout=TIMEOUT)
    future.cancel()
    assert future.cancelled() or future.code() is grpc.StatusCode.OK


def test_an_error_and_its_details(stub, qkv):
    request = request_of(qkv)
    request.q.data = request.q.data[:-4]
    with pytest.raises(grpc.RpcError) as refused:
        stub.Attend(request, timeout=TIMEOUT)
    error = refused.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    trailing = dict(error.trailing_metadata())
    status = pb.CallStatus.FromString(trailing["grpc-status-details-bin"])
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert status.message == error.details()
    kinds = [detail.type_url for detail in status.details]
    assert "type.googleapis.com/google.rpc.BadRequest" in kinds


def test_a_stream_of_calls(stub, qkv):
    def messages():
        for number in (1, 2, 3):
            yield pb.AttendStreamRequest(call=number, request=request_of(qkv))

    answers = {x.call: x for x in stub.AttendStream(messages(), timeout=TIMEOUT)}
    assert set(answers) == {1, 2, 3}
    for answer in answers.values():
        output = array_of(answer.response.output)
        np.testing.assert_allclose(output, attention(*qkv), atol=2e-6)


def test_a_request_without_its_tensors_is_planned(stub, qkv):
    info = pb.TensorInfo(dtype=pb.DATA_TYPE_F32, shape=qkv[0].shape)
    plan = stub.Plan(pb.PlanRequest(q=info, k=info, v=info), timeout=TIMEOUT)
    server = stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=TIMEOUT)
    assert plan.kernel in server.kernels

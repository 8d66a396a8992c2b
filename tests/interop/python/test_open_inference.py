"""The Open Inference Protocol by python3-grpcio and plain stubs of protoc, as a
client of KServe or Triton speaks it."""

import grpc
import numpy as np
import pytest
from formulas import attention
from inference import open_inference_pb2 as pb
from inference import open_inference_pb2_grpc

TIMEOUT = 120


@pytest.fixture
def stub(channel):
    return open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture
def qkv():
    rng = np.random.default_rng(4)
    return {n: rng.standard_normal((2, 3, 6, 8)).astype("<f4") for n in "qkv"}


def infer_request(model, arrays, outputs=()):
    request = pb.ModelInferRequest(model_name=model, id="42")
    for name, array in arrays.items():
        request.inputs.add(name=name, datatype="FP32", shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    for name in outputs:
        request.outputs.add(name=name)
    return request


def outputs_of(response):
    return {
        output.name: np.frombuffer(raw, "<f4").reshape(output.shape)
        for output, raw in zip(response.outputs, response.raw_output_contents)
    }


def test_the_server_is_live_and_ready(stub):
    assert stub.ServerLive(pb.ServerLiveRequest(), timeout=TIMEOUT).live
    assert stub.ServerReady(pb.ServerReadyRequest(), timeout=TIMEOUT).ready
    ready = pb.ModelReadyRequest(name="attention")
    assert stub.ModelReady(ready, timeout=TIMEOUT).ready


def test_metadata_names_inputs_and_outputs(stub):
    server = stub.ServerMetadata(pb.ServerMetadataRequest(), timeout=TIMEOUT)
    assert server.name and server.version
    request = pb.ModelMetadataRequest(name="attention")
    model = stub.ModelMetadata(request, timeout=TIMEOUT)
    assert [x.name for x in model.inputs] == ["q", "k", "v"]
    assert {x.datatype for x in model.inputs} == {"FP32"}
    assert "output" in [x.name for x in model.outputs]


def test_a_model_of_each_variant(stub):
    index = stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=TIMEOUT)
    models = [x.name for x in index.models]
    assert {"attention", "mask_causal", "normalizer_sparsemax"} <= set(models)


def test_raw_contents_in_and_out(stub, qkv):
    response = stub.ModelInfer(infer_request("attention", qkv), timeout=TIMEOUT)
    assert response.id == "42"
    assert [x.datatype for x in response.outputs] == ["FP32"]
    np.testing.assert_allclose(
        outputs_of(response)["output"], attention(**qkv), atol=2e-6
    )


def test_a_variant_by_its_model(stub, qkv):
    request = infer_request("mask_causal", qkv, ["lse", "output"])
    found = outputs_of(stub.ModelInfer(request, timeout=TIMEOUT))
    allowed = np.tril(np.ones((6, 6), bool))
    expected = attention(**qkv, allowed=allowed)
    np.testing.assert_allclose(found["output"], expected, atol=2e-6)
    # The first query sees one key: its lse is that logit.
    first = (qkv["q"][..., 0, :] * qkv["k"][..., 0, :]).sum(-1) * 8**-0.5
    np.testing.assert_allclose(found["lse"][..., 0], first, atol=2e-6)


def test_typed_contents_and_parameters(stub, qkv):
    request = pb.ModelInferRequest(model_name="attention")
    for name, array in qkv.items():
        one = request.inputs.add(name=name, datatype="FP32", shape=array.shape)
        one.contents.fp32_contents.extend(array.ravel().tolist())
    request.parameters["causal"].bool_param = True
    found = outputs_of(stub.ModelInfer(request, timeout=TIMEOUT))
    expected = attention(**qkv, allowed=np.tril(np.ones((6, 6), bool)))
    np.testing.assert_allclose(found["output"], expected, atol=2e-6)


def test_an_unknown_model_is_not_found(stub, qkv):
    with pytest.raises(grpc.RpcError) as refused:
        stub.ModelInfer(infer_request("no-such-model", qkv), timeout=TIMEOUT)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    ready = pb.ModelReadyRequest(name="no-such-model")
    assert not stub.ModelReady(ready, timeout=TIMEOUT).ready

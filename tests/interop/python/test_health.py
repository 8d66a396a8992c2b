"""The standard health protocol by stubs of its own proto."""

import grpc
import pytest
from health.v1 import health_pb2, health_pb2_grpc

TIMEOUT = 120
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def stub(channel):
    return health_pb2_grpc.HealthStub(channel)


@pytest.mark.parametrize("service", ["", "attention.v1.AttentionService"])
def test_check(stub, service):
    request = health_pb2.HealthCheckRequest(service=service)
    assert stub.Check(request, timeout=TIMEOUT).status == SERVING


def test_check_of_an_unknown_service(stub):
    with pytest.raises(grpc.RpcError) as refused:
        stub.Check(health_pb2.HealthCheckRequest(service="no.such"), timeout=TIMEOUT)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_watch_tells_the_state_at_once(stub):
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
    assert next(watch).status == SERVING
    watch.cancel()

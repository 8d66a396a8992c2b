"""A server of sessions that has another do the work, and fails where it is told to."""

from __future__ import annotations

import collections
import threading
from concurrent import futures
from typing import Any, Iterable, Iterator

import grpc

from attn_client.v1 import attention_pb2 as pb
from attn_client.v1 import session_pb2

SERVICE = "/attention.v1.SessionService/"
_DETAILS = "grpc-status-details-bin"

# What may be planned for a call beside a CallStatus, which refuses it, and bytes,
# which answer it.
PASS = "pass"
# It is made, and then the connection breaks.
LOSE = "lose"
# It is made, and its answer is too late.
LATE = "late"
# Of a stream: it is made and never answered.
SWALLOW = "swallow"


def status(
    code: grpc.StatusCode,
    message: str,
    reason: str = "",
    retry_after_ns: int = 0,
) -> pb.CallStatus:
    """As a server words it: google.rpc.ErrorInfo and RetryInfo by their fields."""
    result = pb.CallStatus(code=code.value[0], message=message)
    if reason:
        detail = result.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo")
        detail.value = b"\x0a" + bytes([len(reason)]) + reason.encode()
    if retry_after_ns:
        # Field 1, a Duration, whose field 2 is nanoseconds: a varint.
        nanoseconds = bytearray()
        while retry_after_ns > 0x7F:
            nanoseconds.append(retry_after_ns & 0x7F | 0x80)
            retry_after_ns >>= 7
        nanoseconds.append(retry_after_ns)
        duration = b"\x10" + bytes(nanoseconds)
        detail = result.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo")
        detail.value = b"\x0a" + bytes([len(duration)]) + duration
    return result


def busy() -> pb.CallStatus:
    return status(grpc.StatusCode.UNAVAILABLE, "busy", "SESSION_BUSY", 1_000_000)


def _status_of(error: grpc.RpcError) -> pb.CallStatus:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            return pb.CallStatus.FromString(value)
    return pb.CallStatus(code=error.code().value[0], message=error.details())


class Proxy(grpc.GenericRpcHandler):
    """plan() says what becomes of the next calls of a method; all others pass."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target)
        self._plans: dict[str, collections.deque[Any]] = collections.defaultdict(
            collections.deque
        )
        self._lock = threading.Lock()
        # Methods in the order of their calls.
        self.calls: list[str] = []
        # What they told of where they belong.
        self.routes: list[dict[str, str]] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(8), [self])
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.address = f"127.0.0.1:{port}"

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def plan(self, method: str, *actions: Any) -> None:
        with self._lock:
            self._plans[method].extend(actions)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method.rpartition("/")[2]
        told = {
            key: value
            for key, value in details.invocation_metadata
            if key.startswith("x-attn-")
        }
        with self._lock:
            self.routes.append(told)
        if method == "StepStream":
            return grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._unary(method, request, context)
        )

    def _next(self, method: str) -> Any:
        with self._lock:
            self.calls.append(method)
            plan = self._plans[method]
            return plan.popleft() if plan else PASS

    def _forward(self, method: str, request: bytes) -> bytes:
        return self._channel.unary_unary(SERVICE + method)(request, timeout=120)

    def _abort(self, context: Any, refused: pb.CallStatus) -> None:
        context.set_trailing_metadata([(_DETAILS, refused.SerializeToString())])
        codes = {code.value[0]: code for code in grpc.StatusCode}
        context.abort(codes[refused.code], refused.message)

    def _unary(self, method: str, request: bytes, context: Any) -> bytes:
        action = self._next(method)
        if isinstance(action, pb.CallStatus):
            self._abort(context, action)
        if isinstance(action, bytes):
            return action
        try:
            answer = self._forward(method, request)
        except grpc.RpcError as error:
            self._abort(context, _status_of(error))
        if action == LOSE:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset")
        if action == LATE:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        return answer

    def _stream(self, requests: Iterable[bytes], context: Any) -> Iterator[bytes]:
        for request in requests:
            action = self._next("StepStream")
            if isinstance(action, bytes):
                yield action
                continue
            answer = session_pb2.StepStreamResponse()
            if isinstance(action, pb.CallStatus):
                answer.status.CopyFrom(action)
            else:
                step = session_pb2.StepStreamRequest.FromString(request).step
                try:
                    data = self._forward("Step", step.SerializeToString())
                    answer.response.ParseFromString(data)
                except grpc.RpcError as error:
                    answer.status.CopyFrom(_status_of(error))
            if action == LOSE:
                context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset")
            if action != SWALLOW:
                yield answer.SerializeToString()

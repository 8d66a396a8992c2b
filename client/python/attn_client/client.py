"""AttentionClient: one connection to one server."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypeVar

import grpc
import numpy.typing as npt

from . import stream
from .calls import Deadline, reading
from .channel import Channel, Security, join
from .decode import (
    SplitTensors,
    attend_result_of,
    gradients_of,
    inspection_of,
    plan_of,
    server_info_of,
    split_tensors,
)
from .errors import AttnError, ResourceExhaustedError
from .options import Call, build_call, naming
from .requests import (
    Index,
    answer_bytes,
    checked_timeout,
    cotangents,
    enum_numbers,
    message,
    plan_request,
    set_region,
    set_tiles,
)
from .results import AttendResult, Gradients, Inspection, Plan, ServerInfo, SessionInfo
from .session_calls import close_session, describe_session, list_sessions
from .tensors import data_type
from .v1 import attention_pb2
from .wire import Buffer, WireError, delimited, first_int, size_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import CallOptions

T = TypeVar("T")

# From this size on the server is asked for its limits first, once.
_ASK_ABOVE_BYTES = 1 << 20
_SERVICE = "/attention.v1.AttentionService/"
# Of grpc.health.v1: HealthCheckResponse.ServingStatus.
_HEALTH_METHOD = "/grpc.health.v1.Health/Check"
_HEALTH_STATUS = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class AttentionClient:
    """A client of an attn server.

        with AttentionClient("127.0.0.1:8001") as client:
            result = client.attend(q, k, v, causal=True)

    It connects with the first call. Every call has a deadline: its `timeout`, or
    the client's. Calls raise AttnError, of a class for each status code. The
    options that calls share are those of CallOptions. Thread-safe; close() ends
    the calls that are open.

    address: "host:port" or "unix:/path"; or several servers, to which calls go in
    turn: "dns:///name:port", every address of the name, or "ipv4:a:port,b:port".
    timeout: seconds that a call may take.
    tls_ca: PEM file of the CAs to trust, or "system"; without it there is no TLS.
    tls_cert, tls_key: PEM files to show to a server that asks for a certificate.
    tls_server_name: whom the server's certificate must be for, if not the host.
    token, token_file: a bearer token, sent with every call; under TLS, or to this
        machine, unless allow_plaintext_token.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:8001",
        *,
        timeout: float = 60.0,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        tls_server_name: str | None = None,
        token: str | None = None,
        token_file: str | None = None,
        allow_plaintext_token: bool = False,
    ) -> None:
        self._timeout = checked_timeout(timeout)
        security = Security(
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_server_name=tls_server_name,
            token=token,
            token_file=token_file,
            allow_plaintext_token=allow_plaintext_token,
        )
        self._channel = Channel(address, security)
        self._lock = threading.Lock()
        self._max_message_bytes: int | None = None

    @property
    def address(self) -> str:
        """The server's."""
        return self._channel.address

    def __enter__(self) -> AttentionClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; no call can be made after that."""
        self._channel.close()

    def attend(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike | None,
        *,
        outputs: Sequence[str] = ("output",),
        output_dtype: npt.DTypeLike = None,
        kernel: str = "",
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> AttendResult:
        """Computes attention.

        q, k, v: [B, Hq, Sq, d_k], [B, Hkv, Sk, d_k], [B, Hkv, Sk, d_v] of
        float32, float16, float64 or bfloat16; Hq a multiple of Hkv. v is None
        where the spec makes it of k.
        outputs: of "output", "lse", "logits", "masked_logits", "weights",
        "row_statistics", "head_statistics", "lse_with_sink", "dropout_keep",
        "state", "head_output".
        output_dtype: of `output`; None: that of q.
        kernel: one by name; "": the server's choice.

        A call, or an answer, that is larger than the server's messages goes over
        a stream in chunks.
        """
        deadline = self._deadline(timeout)
        call = build_call(q, k, v, **options)
        request = attention_pb2.AttendRequest(kernel=kernel)
        call.fill(request)
        words = enum_numbers("outputs", attention_pb2.Output, "OUTPUT_", outputs)
        request.outputs.extend(words)
        if output_dtype is not None:
            request.output_dtype = data_type("output_dtype", output_dtype)
        parts = message(request, call)
        largest = max(size_of(parts), answer_bytes(call, request.outputs))
        limit = self._limit_for(largest, deadline)
        if largest > limit:
            answer = self._forgetting(
                lambda: stream.attend(
                    self._channel, request, call, limit, deadline.left()
                )
            )
            return reading(lambda: attend_result_of(answer.response, answer.tensors))
        response = attention_pb2.AttendResponse()
        split = self._call("Attend", parts, response, call, deadline)
        return reading(lambda: attend_result_of(response, split.single()))

    def backward(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike | None,
        *,
        d_output: npt.ArrayLike | None = None,
        d_lse: npt.ArrayLike | None = None,
        gradients: Sequence[str] = (),
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Gradients:
        """The gradients of a loss, of which d_output is the gradient with respect
        to the output (of its shape), d_lse that with respect to lse ([B, Hq, Sq]);
        at least one of the two.

        gradients: of "q", "k", "v", "inputs", "layers"; empty: all that there
        are. InvalidArgumentError says which stage has no gradient.
        """
        deadline = self._deadline(timeout)
        call = build_call(q, k, v, **options)
        request = attention_pb2.AttendBackwardRequest()
        call.fill(request)
        words = enum_numbers(
            "gradients", attention_pb2.Gradient, "GRADIENT_", gradients
        )
        request.gradients.extend(words)
        extra = cotangents(request, d_output=d_output, d_lse=d_lse)
        response = attention_pb2.AttendBackwardResponse()
        parts = message(request, call, extra)
        split = self._call_whole("AttendBackward", parts, response, call, deadline)
        return reading(lambda: gradients_of(response, split.arrays, call.input_names))

    def inspect(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike | None,
        *,
        views: Sequence[str] = ("weights",),
        region: Mapping[str, Index] | None = None,
        tiles: tuple[int, int, str] | None = None,
        sweep_temperatures: Sequence[float] = (),
        d_output: npt.ArrayLike | None = None,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Inspection:
        """Looks inside a call.

        views: of "logits", "masked_logits", "weights", "contribution" (weight
        times norm of v), "gradient_weight" (needs d_output).
        region: part of "batch", "head", "query" and "key" by name; an index, a
        slice without a step or a pair (begin, end); those not named are whole.
        tiles: (queries, keys, "mean", "max", "min" or "sum"): each tile of so
        many becomes one number.
        sweep_temperatures: head statistics at each of them.
        """
        deadline = self._deadline(timeout)
        call = build_call(q, k, v, **options)
        request = attention_pb2.InspectRequest()
        call.fill(request)
        words = enum_numbers("views", attention_pb2.InspectView, "INSPECT_VIEW_", views)
        request.views.extend(words)
        with naming("region", "indices, slices or pairs of them by axis"):
            set_region(request.window, region or {})
        with naming("tiles", '(queries, keys, "mean", "max", "min" or "sum")'):
            set_tiles(request, tiles)
        with naming("sweep_temperatures", "numbers"):
            request.sweep_temperatures.extend(sweep_temperatures)
        extra = cotangents(request, d_output=d_output)
        response = attention_pb2.InspectResponse()
        parts = message(request, call, extra)
        split = self._call_whole("Inspect", parts, response, call, deadline)
        return reading(lambda: inspection_of(response, split.single()))

    def plan(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike | None,
        *,
        outputs: Sequence[str] = ("output",),
        output_dtype: npt.DTypeLike = None,
        kernel: str = "",
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Plan:
        """What attend() would do; computes nothing. Only shapes and dtypes are
        sent: numpy.broadcast_to(numpy.float32(0), shape) needs no memory."""
        deadline = self._deadline(timeout)
        request = plan_request(build_call(q, k, v, **options))
        request.kernel = kernel
        words = enum_numbers("outputs", attention_pb2.Output, "OUTPUT_", outputs)
        request.outputs.extend(words)
        if output_dtype is not None:
            request.output_dtype = data_type("output_dtype", output_dtype)
        response = attention_pb2.PlanResponse()
        self._call_small("Plan", request, response, deadline)
        return plan_of(response)

    def info(self, *, timeout: float | None = None) -> ServerInfo:
        """Describes the server."""
        request = attention_pb2.GetServerInfoRequest()
        response = attention_pb2.GetServerInfoResponse()
        self._call_small("GetServerInfo", request, response, self._deadline(timeout))
        return server_info_of(response)

    def health(self, service: str = "", *, timeout: float | None = None) -> str:
        """What the standard health service says: "SERVING" or "NOT_SERVING".

        service: "" is the whole server. NotFoundError for one it does not know.
        """
        name = service.encode()
        request = join(delimited(1, [name]) if name else [])
        left = self._deadline(timeout).left()
        answer = self._channel.call(_HEALTH_METHOD, request, left)
        status = reading(lambda: first_int(answer, 1))
        known = status < len(_HEALTH_STATUS)
        return _HEALTH_STATUS[status] if known else str(status)

    def sessions(self, *, timeout: float | None = None) -> tuple[SessionInfo, ...]:
        """The caller's sessions on the server, by id; Session makes one."""
        return list_sessions(self._channel, self._deadline(timeout))

    def session(self, session_id: str, *, timeout: float | None = None) -> SessionInfo:
        """Describes a session by its id. NotFoundError, its reason
        "SESSION_NOT_HERE" or "SESSION_EXPIRED", if the server has it not."""
        return describe_session(self._channel, session_id, self._deadline(timeout))

    def close_session(self, session_id: str, *, timeout: float | None = None) -> bool:
        """Has the server forget a session, and says whether it was there."""
        return close_session(self._channel, session_id, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._timeout if timeout is None else timeout)

    def _limit_for(self, size: int, deadline: Deadline) -> int:
        """The server's limit for a message; asks for it where it may matter."""
        with self._lock:
            known = self._max_message_bytes
        if known is not None or size < _ASK_ABOVE_BYTES:
            return max(size, 1) if known is None else known
        limits = self.info(timeout=deadline.left()).limits
        with self._lock:
            self._max_message_bytes = limits.max_message_bytes
        return limits.max_message_bytes

    def _forgetting(self, call: Callable[[], T]) -> T:
        """Calls; after an error another server may answer, with other limits."""
        try:
            return reading(call)
        except AttnError:
            with self._lock:
                self._max_message_bytes = None
            raise

    def _call_small(
        self, method: str, request: Any, response: Any, deadline: Deadline
    ) -> None:
        sent = request.SerializeToString()
        data = self._channel.call(_SERVICE + method, sent, deadline.left())

        def parse() -> None:
            response.ParseFromString(data)

        reading(parse)

    def _call(
        self,
        method: str,
        parts: list[Buffer],
        response: Any,
        call: Call,
        deadline: Deadline,
    ) -> SplitTensors:
        """A unary call whose response is read into `response`."""

        def send_and_read() -> SplitTensors:
            sent = join(parts)
            data = self._channel.call(_SERVICE + method, sent, deadline.left())
            split = split_tensors(response, data, call.bfloat16)
            if split.missing:
                raise WireError("tensors without data")
            return split

        return self._forgetting(send_and_read)

    def _call_whole(
        self,
        method: str,
        parts: list[Buffer],
        response: Any,
        call: Call,
        deadline: Deadline,
    ) -> SplitTensors:
        """The same of a method that has no stream beside it."""
        size = size_of(parts)
        limit = self._limit_for(size, deadline)
        if size > limit:
            raise ResourceExhaustedError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{method}: got a request of {size} bytes, expected at most {limit}, "
                "the server's --max-message-bytes: send fewer batch entries or heads "
                "in one call, or start the server with a larger limit",
            )
        return self._call(method, parts, response, call, deadline)

"""What a call raises. Every error is one line that says what to do."""

from __future__ import annotations

from typing import NoReturn

import grpc
from google.protobuf.message import DecodeError

from .v1 import attention_pb2
from .wire import WireError, first_bytes, first_int

_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_DETAILS_KEY = "grpc-status-details-bin"

# How gRPC words the failures of reaching a server.
_UNREACHABLE = (
    "failed to connect",
    "connections to all backends failing",
    "DNS resolution failed",
    "Connection reset",
    "Socket closed",
    "Broken pipe",
    "recvmsg",
    "empty address list",
)
# How it words a server that is there, but is not the one that was meant.
_HANDSHAKE = ("andshake failed", "is not in peer certificate")


class AttnError(Exception):
    """A call failed. The text is one line.

    code: the gRPC status code.
    message: the server's words, or this client's.
    field: which field of the request the error is about, or None.
    retry_after: after how many seconds a retry is worth while, or None.
    reason: the server's name for what happened, of google.rpc.ErrorInfo, such as
        "SESSION_EXPIRED"; "" if it gave none.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        field: str | None = None,
        retry_after: float | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.retry_after = retry_after
        self.reason = reason


class InvalidArgumentError(AttnError, ValueError):
    """The request cannot be meant; `field` names the part at fault."""


class ResourceExhaustedError(AttnError):
    """Too large, or the server is full: with `retry_after`, try again later."""


class DeadlineExceededError(AttnError, TimeoutError):
    """The call's time was up before it was answered."""


class UnavailableError(AttnError, ConnectionError):
    """No server answers at the address, or it is stopping: try another."""


class UnauthenticatedError(AttnError, PermissionError):
    """The server asks for a token, or does not know the one it got."""


class NotFoundError(AttnError, LookupError):
    """A layer, a session, or a service of the health protocol, that the server has
    not."""


class CancelledError(AttnError):
    """The call was cancelled."""


_CLASSES: dict[grpc.StatusCode, type[AttnError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.CANCELLED: CancelledError,
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def refuse(field: str, got: object, expected: str) -> NoReturn:
    """Raises InvalidArgumentError in the words that the server uses."""
    message = f"{field}: got {got}, expected {expected}"
    raise InvalidArgumentError(grpc.StatusCode.INVALID_ARGUMENT, message, field)


def from_status(status: attention_pb2.CallStatus) -> AttnError:
    """The error of a google.rpc.Status (CallStatus has its fields)."""
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    field: str | None = None
    retry_after: float | None = None
    reason = ""
    for detail in status.details:
        if detail.type_url == _BAD_REQUEST:
            violation = first_bytes(detail.value, 1) or b""
            name = first_bytes(violation, 1)
            field = None if name is None else name.decode("utf-8", "replace")
        elif detail.type_url == _RETRY_INFO:
            delay = first_bytes(detail.value, 1) or b""
            retry_after = first_int(delay, 1) + first_int(delay, 2) * 1e-9
        elif detail.type_url == _ERROR_INFO:
            reason = (first_bytes(detail.value, 1) or b"").decode("utf-8", "replace")
    kind = _CLASSES.get(code, AttnError)
    return kind(code, status.message, field, retry_after, reason)


def from_rpc_error(error: grpc.RpcError, address: str) -> AttnError:
    """The error of a failed gRPC call to `address`."""
    code: grpc.StatusCode = error.code()
    said = str(error.details() or "")
    if code is grpc.StatusCode.UNAVAILABLE:
        said = _unavailable(said, address)
    elif said == "Deadline Exceeded":
        said = f"no answer from {address} within the timeout of the call"
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        try:
            return from_status(attention_pb2.CallStatus.FromString(value))
        except (DecodeError, WireError):
            break  # Not of our server: its code and words must do.
    return _CLASSES.get(code, AttnError)(code, said or code.name)


def with_more(error: AttnError, words: str) -> AttnError:
    """The same error, which says more."""
    return type(error)(
        error.code,
        f"{error.message}; {words}",
        error.field,
        error.retry_after,
        error.reason,
    )


# Of servers that say no before they do anything.
_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
)


def is_refusal(error: BaseException) -> bool:
    """Whether it says that the server did nothing; after all others it may have
    done what it was asked."""
    if isinstance(error, ResourceExhaustedError):
        return error.reason != ""  # gRPC's own, of an answer's size, has none.
    return isinstance(error, AttnError) and error.code in _REFUSALS


def precondition(message: str) -> AttnError:
    """Of a call that what went before it does not allow."""
    return AttnError(grpc.StatusCode.FAILED_PRECONDITION, message)


def closed(address: str) -> AttnError:
    """Of a call by a client that was closed."""
    return precondition(f"the client of {address} is closed: make another")


def _unavailable(said: str, address: str) -> str:
    if any(words in said for words in _HANDSHAKE):
        return (
            f"this client and the server at {address} do not agree on TLS "
            f"({said}); look at tls_ca, tls_cert and tls_server_name"
        )
    if any(words in said for words in _UNREACHABLE):
        return (
            f"no server answers at {address} ({said}); start attn-server there, "
            "or name another address"
        )
    return said

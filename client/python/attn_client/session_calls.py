"""Calls of SessionService that are one small message each way."""

from __future__ import annotations

from typing import Any, TypeVar

from .calls import Deadline, reading
from .channel import Channel, join
from .decode import session_info_of
from .results import SessionInfo
from .retries import repeated
from .v1 import session_pb2
from .wire import Buffer

T = TypeVar("T")

SERVICE = "/attention.v1.SessionService/"


def call_bytes(channel: Channel, method: str, sent: bytes, deadline: Deadline) -> bytes:
    """A call that is tried again where that may help."""
    return repeated(
        lambda: channel.call(SERVICE + method, sent, deadline.left()), deadline
    )


def call_small(
    channel: Channel,
    method: str,
    request: Any,
    response: T,
    deadline: Deadline,
    inputs: tuple[Buffer, ...] = (),
) -> T:
    """Reads the answer into `response`. `inputs` are tensors behind the request."""
    sent = join([request.SerializeToString(), *inputs])
    data = call_bytes(channel, method, sent, deadline)
    message: Any = response

    def parse() -> None:
        message.ParseFromString(data)

    reading(parse)
    return response


def list_sessions(channel: Channel, deadline: Deadline) -> tuple[SessionInfo, ...]:
    """As many calls as there are pages."""
    request = session_pb2.ListSessionsRequest()
    found: list[SessionInfo] = []
    while True:
        response = session_pb2.ListSessionsResponse()
        call_small(channel, "ListSessions", request, response, deadline)
        found += [session_info_of(message) for message in response.sessions]
        request.page_token = response.next_page_token
        if not request.page_token:
            return tuple(found)


def describe_session(
    channel: Channel, session_id: str, deadline: Deadline
) -> SessionInfo:
    request = session_pb2.GetSessionRequest(session_id=session_id)
    response = session_pb2.GetSessionResponse()
    call_small(channel, "GetSession", request, response, deadline)
    return session_info_of(response.session)


def close_session(channel: Channel, session_id: str, deadline: Deadline) -> bool:
    """Whether it was there."""
    request = session_pb2.CloseSessionRequest(session_id=session_id)
    response = session_pb2.CloseSessionResponse()
    call_small(channel, "CloseSession", request, response, deadline)
    return bool(response.closed)

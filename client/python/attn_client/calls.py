"""What calls of every kind have in common: how long, and how read."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

import grpc
from google.protobuf.message import DecodeError

from .errors import AttnError
from .requests import checked_timeout
from .wire import WireError

T = TypeVar("T")


class Deadline:
    """The end of a call that may take several messages."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + checked_timeout(seconds)

    def left(self) -> float:
        """Seconds; a call whose time is up fails as one that is late."""
        return max(self._end - time.monotonic(), 1e-6)


def reading(read: Callable[[], T]) -> T:
    """What `read` returns; INTERNAL if it meets bytes that are no message."""
    try:
        return read()
    except (WireError, DecodeError) as error:
        words = f"the answer is malformed: {error}"
        raise AttnError(grpc.StatusCode.INTERNAL, words) from None

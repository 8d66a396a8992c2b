"""When a call that twice is as good as once is made again, and how soon; as the
C++ client does by default."""

from __future__ import annotations

import random
import time
from typing import Callable, TypeVar

from .calls import Deadline
from .errors import (
    AttnError,
    CancelledError,
    ResourceExhaustedError,
    UnavailableError,
)

T = TypeVar("T")

_ATTEMPTS = 4
FIRST_WAIT_SECONDS = 0.1
_GROWTH = 2.0
_JITTER = 0.2


class Attempts:
    """The attempts of one call."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._failed = 0
        self._cancelled = 0

    def wait_after(self, error: AttnError) -> bool:
        """Whether it is worth another attempt; then the time for it has come."""
        self._failed += 1
        refused = isinstance(error, ResourceExhaustedError)
        later = refused and error.retry_after is not None
        # By a server that is going, or by a connection that is: once tells them
        # apart.
        self._cancelled += isinstance(error, CancelledError)
        again = isinstance(error, CancelledError) and self._cancelled == 1
        if not (later or again or isinstance(error, UnavailableError)):
            return False
        # An even draw, so that clients that failed together do not return together.
        wait = FIRST_WAIT_SECONDS * _GROWTH ** (self._failed - 1)
        wait *= random.uniform(1 - _JITTER, 1 + _JITTER)
        wait = max(wait, error.retry_after or 0.0)
        if self._failed == _ATTEMPTS or wait >= self._deadline.left():
            return False
        time.sleep(wait)
        return True


def repeated(call: Callable[[], T], deadline: Deadline) -> T:
    """What `call` returns, or the AttnError of its last attempt."""
    attempts = Attempts(deadline)
    while True:
        try:
            return call()
        except AttnError as error:
            if not attempts.wait_after(error):
                raise

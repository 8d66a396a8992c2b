"""Where a session can be, and how it gets there."""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from .calls import Deadline
from .channel import Channel, Security, join, names_several
from .errors import (
    AttnError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    precondition,
    refuse,
    with_more,
)
from .history import ReplayHistory, ReplayLimits, ReplayPart
from .retries import FIRST_WAIT_SECONDS
from .session_calls import call_bytes, call_small, close_session
from .steps import StepAnswer, StepCall, StepPlace, read_answer
from .tensors import to_wire
from .v1 import attention_pb2, session_pb2
from .wire import Buffer

# A part of a replay: under the 4 MiB that a gRPC server takes if it is not told
# otherwise, and few tokens enough that other sessions get their turn.
_REPLAY_TOKENS = 512
_REPLAY_BYTES = 3 << 20
# How long a session that could not be made whole is worth waiting for, to close
# it.
CLOSE_WITHIN_SECONDS = 1.0
# Queries of zeros stand in place of those that were answered long ago.
_ZERO = np.dtype(np.uint16)


def is_lost(error: AttnError) -> bool:
    """Whether the session that a call was about is not to be had there any more."""
    if isinstance(error, UnavailableError):
        return error.reason != "SESSION_BUSY"
    if isinstance(error, NotFoundError):
        return error.reason in ("SESSION_NOT_HERE", "SESSION_EXPIRED")
    # By the server, which is going: nothing here cancels.
    return isinstance(error, CancelledError)


def may_take_later(error: AttnError) -> bool:
    """Whether an address that refused may take a session later."""
    return (
        is_lost(error)
        or isinstance(error, UnavailableError)
        or error.retry_after is not None
    )


class Connections:
    """Channels by address, which a session shares with its forks: the last that
    lets go closes them. Thread-safe."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._users = 1

    def share(self) -> Connections:
        """The same, of one more."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """One fewer."""
        with self._lock:
            self._users -= 1
            over = list(self._channels.values()) if self._users == 0 else []
        for channel in over:
            channel.close()

    def to(self, address: str) -> Channel:
        """InvalidArgumentError for an address that is none."""
        with self._lock:
            if address not in self._channels:
                self._channels[address] = Channel(address, self._security)
            return self._channels[address]


@dataclass
class Place:
    """A session on a server."""

    channel: Channel
    session_id: str
    epoch: int
    next_step: int = 0
    # As a proxy is told it; empty: there is none, or none that is told.
    owner: str = ""

    def step(self, call: StepCall, position: int, deadline: Deadline) -> StepAnswer:
        """Makes the next step; one that was made is answered as before."""
        sent = join(call.message(self.for_step(), position))
        answer = read_answer(call_bytes(self.channel, "Step", sent, deadline), call)
        self.next_step += 1
        return answer

    def for_step(self, later: int = 0) -> StepPlace:
        """Of the step that is so many behind the next."""
        return StepPlace(self.session_id, self.epoch, self.next_step + later)

    def close(self, deadline: Deadline) -> None:
        close_session(self.channel, self.session_id, deadline)


class Places:
    """Opens one kind of session wherever it can. For one thread at a time."""

    def __init__(
        self,
        addresses: list[str],
        connections: Connections,
        request: session_pb2.OpenSessionRequest,
        inputs: list[Buffer],
        through_proxy: bool,
    ) -> None:
        self._addresses = addresses
        self._through_proxy = through_proxy
        self._connections = connections
        # What sessions are opened with, and the tensors behind it.
        self._request = request
        self._inputs = inputs
        # Of _addresses.
        self._next = 0

    def share(self) -> Places:
        """The same for a fork, which goes its own way."""
        other = copy.copy(self)
        self._connections.share()
        return other

    def release(self) -> None:
        self._connections.release()

    def place(self, opened: Any, asked: Channel) -> Place:
        """Of a session that `asked` has opened or forked, by what it was told."""
        owner: str = opened.owner
        channel = asked
        if owner and not self._through_proxy:
            channel = self._called(owner, asked)
        elif not self._through_proxy and names_several(asked.address):
            raise precondition(
                f"addresses: got {asked.address}, behind which a server does not say "
                "which one it is, expected that each is started with "
                "--advertise-address"
            )
        named = owner if self._through_proxy else ""
        about = channel.about(opened.session_id, named)
        return Place(about, opened.session_id, opened.epoch, owner=named)

    def _called(self, owner: str, asked: Channel) -> Channel:
        try:
            return self._connections.to(owner)
        except AttnError as error:
            raise with_more(
                error,
                f"the server at {asked.address} names an owner that cannot be called",
            ) from None

    def open(
        self, history: ReplayHistory, patience: float, deadline: Deadline
    ) -> Place:
        """A session with the tokens of `history`, which must be complete, at the
        first address that takes it, beginning with the one after that of the last
        call. All are asked again until `patience` seconds have passed, unless none
        of them may change its mind. Raises what the last one said."""
        last_round = time.monotonic() + patience
        while True:
            refused: AttnError | None = None
            later = False
            for _ in self._addresses:
                address = self._addresses[self._next]
                self._next = (self._next + 1) % len(self._addresses)
                try:
                    return self._open_at(address, history, deadline)
                except InvalidArgumentError:
                    raise  # What one cannot understand the others cannot.
                except AttnError as error:
                    refused = error
                    later = later or may_take_later(error)
            assert refused is not None
            left = min(last_round - time.monotonic(), deadline.left())
            if not later or FIRST_WAIT_SECONDS >= left:
                raise refused
            time.sleep(FIRST_WAIT_SECONDS)

    def _open_at(
        self, address: str, history: ReplayHistory, deadline: Deadline
    ) -> Place:
        channel = self._connections.to(address)
        opened = call_small(
            channel,
            "OpenSession",
            self._request,
            session_pb2.OpenSessionResponse(),
            deadline,
            tuple(self._inputs),
        )
        place = self.place(opened, channel)
        try:
            for part in history.parts(self._replay_limits()):
                call = self._replayed(part)
                place.step(call, part.position, deadline)
        except AttnError as error:
            # Whoever cannot finish leaves no half of it behind.
            if not is_lost(error):
                soon = Deadline(min(deadline.left(), CLOSE_WITHIN_SECONDS))
                quietly(lambda: place.close(soon))
            raise
        return place

    def _replay_limits(self) -> ReplayLimits:
        asked = self._request
        v_dim = asked.v_dim or asked.k_dim or asked.q_dim
        # The answer has as many rows as the query.
        row = asked.q_heads * (asked.q_dim + v_dim) * _ZERO.itemsize
        return ReplayLimits(_REPLAY_TOKENS, _REPLAY_BYTES, row)

    def _replayed(self, part: ReplayPart) -> StepCall:
        shape = (1, part.tokens, self._request.q_heads, self._request.q_dim)
        bshd = attention_pb2.TENSOR_LAYOUT_BSHD
        zeros = to_wire("q", np.zeros(shape, _ZERO), bshd)
        return StepCall(
            layers=tuple(layer for layer, _, _ in part.layers),
            q=[zeros] * len(part.layers),
            k=[to_wire("k", k, bshd) for _, k, _ in part.layers],
            v=[to_wire("v", v, bshd) for _, _, v in part.layers],
        )


def checked_addresses(addresses: str | Sequence[str]) -> list[str]:
    """One at least."""
    named = [addresses] if isinstance(addresses, str) else list(addresses)
    if not named:
        refuse("addresses", "none", "one at least")
    return named


def quietly(call: Callable[[], object]) -> None:
    """Calls what is not worth an error."""
    try:
        call()
    except AttnError:
        pass

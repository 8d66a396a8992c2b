"""What is known of a session on this side, and how a call outlives a server."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Callable, TypeVar

from .calls import Deadline
from .channel import join
from .errors import AttnError, is_refusal, precondition, refuse, with_more
from .history import ReplayHistory
from .places import CLOSE_WITHIN_SECONDS, Place, Places, is_lost, quietly
from .results import Report
from .session_calls import call_small, describe_session
from .steps import StepAnswer, StepCall, StepPlace
from .v1 import session_pb2

T = TypeVar("T")

# How often one call may go on elsewhere: a step that brings down whoever makes it
# must not be carried on to every server.
MOVES_OF_CALL = 3

# Of more than one step, or of one that is not known any more.
_ANY_STEP = b""


def _mark_of(call: StepCall, position: int) -> bytes:
    """The same for steps that are the same to a server."""
    sent = join(call.message(StepPlace("", 0, 0), position))
    return hashlib.blake2b(sent).digest()


class SessionState:
    """For one thread at a time."""

    def __init__(
        self, places: Places, place: Place, history: ReplayHistory, patience: float
    ) -> None:
        self.places = places
        self.place = place
        self.history = history
        self.patience = patience
        self.moves = 0
        self.closed = False
        self.report: Report | None = None
        # Steps that were begun and are not answered, in their order.
        self.pending: deque[StepCall] = deque()
        # Where a rollback was to go that was not answered; the history has been cut.
        self._unanswered: int | None = None
        # The mark of a step that the server may have and the history has not.
        self._in_doubt: bytes | None = None

    def check_open(self) -> None:
        if self.closed:
            raise precondition("the session was closed")

    def check_ready(self) -> None:
        """Also that no steps are on their way."""
        self.check_open()
        if self.pending:
            raise precondition(
                f"{len(self.pending)} steps of a loop over steps() are on their way: "
                "end it first, or draw none ahead (ahead=1)"
            )

    def length(self, layer: int, pending: int = 0) -> int:
        """Of a layer, once so many of the pending steps are answered."""
        ahead = (self.pending[i] for i in range(pending))
        return self.history.length(layer) + sum(
            call.tokens for call in ahead if layer in call.layers
        )

    def check_step(self, call: StepCall) -> None:
        """Whether it can follow what is pending."""
        pending = len(self.pending)
        for i, layer in enumerate(call.layers):
            if not 0 <= layer < self.history.layers:
                refuse(f"layers[{i}]", layer, f"0 to {self.history.layers - 1}")
            first = call.layers[0]
            length, expected = self.length(layer, pending), self.length(first, pending)
            if length != expected:
                refuse(
                    f"layers[{i}]",
                    f"{layer}, which has {length} tokens",
                    f"{expected}, as layer {first} has",
                )

    def made(self, call: StepCall, answer: StepAnswer) -> None:
        """Takes note of a step that was answered."""
        self.report = answer.report
        for layer, k, v in call.rows():
            self.history.append(layer, k, v)

    def step(self, call: StepCall, deadline: Deadline) -> StepAnswer:
        """Makes a step. One that is not answered is in doubt: the same again is
        answered as if it had been, and all else settles it first."""
        position = self.length(call.layers[0])
        in_doubt = self._in_doubt is not None
        if self._unanswered is not None or (
            in_doubt and self._in_doubt != _mark_of(call, position)
        ):
            self.settle(deadline)
        try:
            answer = self.surviving(
                lambda: self.place.step(call, position, deadline), deadline
            )
        except BaseException as error:
            if not is_refusal(error):
                self._in_doubt = _mark_of(call, position)
            raise
        self._in_doubt = None
        self.made(call, answer)
        return answer

    def doubt(self) -> None:
        """Takes note that the server may have steps which were not answered."""
        self._in_doubt = _ANY_STEP

    def roll_back(self, position: int, deadline: Deadline) -> None:
        """Forgets the tokens from `position` on, there and here; here also if the
        answer is lost, as it is asked for again."""
        if self._unanswered is not None:
            self.settle(deadline)
        before = self.history
        self.history = before.share()
        self.history.truncate(position)
        self._unanswered = position
        try:
            self._ask_rollback(deadline)
        except AttnError as error:
            # Of a session that is gone nothing is left to be refused.
            if is_refusal(error) and not is_lost(error):
                self.history = before
                self._unanswered = None
            raise

    def settle(self, deadline: Deadline) -> None:
        """Has the server's session be what the history is, where an answer was lost
        that would have said so."""
        if self._unanswered is None:
            if self._in_doubt is None:
                return
            self._unanswered = self.history.longest()
        try:
            self._ask_rollback(deadline)
        except AttnError as error:
            if not is_refusal(error) or is_lost(error):
                raise
            # It cannot go back there: another can begin there.
            self.move(error, self.history, deadline)

    def _ask_rollback(self, deadline: Deadline) -> None:
        """Asks for the rollback that is not answered, with the epoch that it had:
        where it was made it is answered as before. No step that is still on its way
        can come behind it."""
        place = self.place
        request = session_pb2.RollbackRequest(
            session_id=place.session_id,
            epoch=place.epoch,
            position=self._unanswered or 0,
        )
        response = session_pb2.RollbackResponse()
        try:
            call_small(place.channel, "Rollback", request, response, deadline)
        except AttnError as error:
            if not is_lost(error):
                raise
            # A new session is given no more than the history.
            self.move(error, self.history, deadline)
            return
        place.epoch = response.epoch
        place.next_step = response.step
        self._unanswered = None
        if self._in_doubt is not None:
            self._compare(deadline)

    def _compare(self, deadline: Deadline) -> None:
        """A rollback leaves a layer alone that is shorter, also where it has more
        tokens than it should: then another session is made."""
        place = self.place
        try:
            info = describe_session(place.channel, place.session_id, deadline)
        except AttnError as error:
            if not is_lost(error):
                raise
            self.move(error, self.history, deadline)
            return
        here = [self.history.length(layer) for layer in range(self.history.layers)]
        there = list(info.lengths)
        if there != here:
            words = f"its layers have {there} tokens on the server, and here {here}"
            self.move(precondition(words), self.history, deadline)
        self._in_doubt = None

    def surviving(self, call: Callable[[], T], deadline: Deadline) -> T:
        """Makes a call of the place, and again of the next one while the session
        is lost."""
        moves = 0
        while True:
            try:
                return call()
            except AttnError as error:
                if not is_lost(error) or moves == MOVES_OF_CALL:
                    raise
                self.move(error, self.history, deadline)
                moves += 1

    def move(
        self, lost: AttnError, history: ReplayHistory, deadline: Deadline
    ) -> None:
        """Goes on elsewhere after `lost`, with the tokens of `history`."""
        if not history.complete:
            raise with_more(
                lost,
                "its tokens cannot be sent again, as they have more than "
                f"max_replay_bytes={history.max_bytes} of k and v",
            ) from None
        left = self.place
        try:
            self.place = self.places.open(history, self.patience, deadline)
        except AttnError as error:
            words = f"no other server took the session: {error.message}"
            raise with_more(lost, words) from None
        self.moves += 1
        # It was given the history and no more.
        self._unanswered = None
        self._in_doubt = None
        if not is_lost(lost):
            soon = Deadline(min(deadline.left(), CLOSE_WITHIN_SECONDS))
            quietly(lambda: left.close(soon))

"""Steps over a stream, which outlive it and its server."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterator

from .calls import Deadline
from .errors import AttnError, is_refusal
from .places import is_lost
from .retries import Attempts
from .session_state import MOVES_OF_CALL, SessionState
from .step_stream import StepStream
from .steps import StepAnswer, StepCall, read_answer, read_streamed, streamed

# What a server says of a step that it has, and others behind it.
_OVERTAKEN = ("SESSION_STEP_GAP", "SESSION_STEP_REPLACED")


class StepLoop:
    """One loop over Session.steps().

    draw: the next step, or None if there are no more.
    ahead: how many may be begun and not answered.
    timeout: seconds for each answer, and for what it takes to get it.
    """

    def __init__(
        self,
        state: SessionState,
        draw: Callable[[], StepCall | None],
        ahead: int,
        timeout: float,
    ) -> None:
        self._state = state
        self._pending: deque[StepCall] = deque()
        self._draw = draw
        self._ahead = ahead
        self._timeout = timeout
        self._stream: StepStream | None = None
        # Of the pending steps, those that were sent over it.
        self._sent = 0
        # Of the pending steps, those that a stream before it may have made.
        self._doubtful = 0
        # Why no more are drawn; raised behind the answers.
        self._failure: Exception | None = None
        self._ended = False

    def run(self) -> Iterator[Any]:
        """The outputs of each step, in order."""
        try:
            while True:
                self._take_turn()
                self._fill()
                if not self._pending:
                    break
                call = self._pending[0]
                yield self._answer_first().for_caller(call)
            if self._failure is not None:
                raise self._failure
        except GeneratorExit:
            self._finish()
            raise
        finally:
            if self._pending and (self._sent or self._doubtful):
                self._state.doubt()
            self._pending.clear()
            self._drop_stream()

    def _take_turn(self) -> None:
        """Between two outputs the session may have been closed or have gone elsewhere,
        or another loop may have begun."""
        self._state.check_open()
        if self._state.pending is not self._pending:
            self._state.check_ready()
            self._state.pending = self._pending
        if not self._pending:
            self._state.settle(Deadline(self._timeout))
            if self._stream and self._stream.channel is not self._state.place.channel:
                self._drop_stream()

    def _fill(self) -> None:
        while not self._ended and len(self._pending) < self._ahead:
            try:
                call = self._draw()
                if call is not None:
                    self._state.check_step(call)
            except Exception as error:
                self._failure = error
                call = None
            if call is None:
                self._ended = True
                return
            self._pending.append(call)
            # Those before it, which a stream that broke has taken along, go first
            # when their answers are waited for.
            if self._stream is not None and not self._stream.broken:
                self._send_rest(self._stream)

    def _send_rest(self, stream: StepStream) -> None:
        for i in range(self._sent, len(self._pending)):
            call = self._pending[i]
            position = self._state.length(call.layers[0], pending=i)
            place = self._state.place.for_step(later=i)
            stream.send(streamed(call.message(place, position)))
            self._sent += 1

    def _answer_first(self) -> StepAnswer:
        """Waits for the answer to the first pending step, wherever it is made."""
        deadline = Deadline(self._timeout)
        attempts = Attempts(deadline)
        moves = 0
        while True:
            try:
                answer = self._receive(deadline)
                break
            except AttnError as error:
                self._settle(deadline)
                if attempts.wait_after(error):
                    continue
                if not is_refusal(error):
                    self._doubtful = max(self._doubtful, 1)
                if not self._is_gone(error) or moves == MOVES_OF_CALL:
                    raise
                self._drop_stream()
                self._state.move(error, self._state.history, deadline)
                self._doubtful = 0
                moves += 1
                attempts = Attempts(deadline)
        call = self._pending.popleft()
        self._sent -= 1
        self._doubtful = max(self._doubtful - 1, 0)
        self._state.place.next_step += 1
        self._state.made(call, answer)
        return answer

    def _receive(self, deadline: Deadline) -> StepAnswer:
        if self._stream is None:
            self._stream = StepStream(self._state.place.channel)
        self._send_rest(self._stream)
        data = read_streamed(self._stream.receive(deadline))
        return read_answer(data, self._pending[0])

    def _is_gone(self, error: AttnError) -> bool:
        """Also if the server has steps whose answers went with a stream: it can
        give none but the last of them."""
        overtaken = self._doubtful > 0 and error.reason in _OVERTAKEN
        return overtaken or is_lost(error)

    def _settle(self, deadline: Deadline) -> None:
        """After a step that failed: those behind it failed with it, as they were
        not the next, and are to be sent again."""
        try:
            for _ in range(1, self._sent):
                if self._stream is not None:
                    self._stream.receive(deadline)
        except AttnError:
            pass  # It is broken.
        if self._stream is None or self._stream.broken:
            self._doubtful = max(self._doubtful, self._sent)
            self._drop_stream()
        self._sent = 0

    def _finish(self) -> None:
        """Waits for those that were begun, which the session then has."""
        try:
            while self._pending and not self._state.closed:
                self._answer_first()
        except AttnError:
            pass  # Session.steps() says what then holds.

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._sent = 0

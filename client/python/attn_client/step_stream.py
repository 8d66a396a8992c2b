"""Steps over one stream: the next may be on its way before the last was answered."""

from __future__ import annotations

import queue
import threading
from typing import Iterator, Union

import grpc

from .calls import Deadline
from .channel import Channel, join
from .errors import AttnError, DeadlineExceededError, UnavailableError, from_rpc_error
from .session_calls import SERVICE
from .wire import Buffer


def _ended(address: str) -> AttnError:
    words = f"the stream of steps to {address} has ended"
    return UnavailableError(grpc.StatusCode.UNAVAILABLE, words)


class StepStream:
    """Answers come in the order of the steps. When the stream itself fails it is
    `broken`, and every call here fails from then on. For one thread at a time."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.broken = False
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Union[bytes, AttnError]] = queue.SimpleQueue()
        sent: Iterator[bytes | None] = iter(self._requests.get, None)
        self._call = channel.stream(SERVICE + "StepStream", sent, None)
        # gRPC's iterator waits without an end, which a queue's get() does not.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for answer in self._call:
                self._answers.put(answer)
        except grpc.RpcError as error:
            self._answers.put(from_rpc_error(error, self.channel.address))
            return
        self._answers.put(_ended(self.channel.address))

    def send(self, parts: list[Buffer]) -> None:
        """A StepStreamRequest; the parts are copied."""
        self._requests.put(join(parts))

    def receive(self, deadline: Deadline) -> bytes:
        """The next StepStreamResponse. AttnError, then it is broken: the stream's
        own, or DeadlineExceededError if nothing comes in time."""
        if self.broken:
            raise _ended(self.channel.address)
        try:
            answer = self._answers.get(timeout=deadline.left())
        except queue.Empty:
            self.close()
            raise DeadlineExceededError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"no answer from {self.channel.address} within the timeout of the "
                "call",
            ) from None
        if isinstance(answer, AttnError):
            self.close()
            raise answer
        return answer

    def close(self) -> None:
        """Ends it; steps that were not answered may have been made or not."""
        if self.broken:
            return
        self.broken = True
        self._call.cancel()
        self._requests.put(None)
        self._reader.join()

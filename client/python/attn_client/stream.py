"""One call over AttendStream: as large as the server's memory allows, rather than
as one message."""

from __future__ import annotations

from typing import Any, Iterator

import grpc
import numpy as np

from .channel import Channel, join
from .errors import AttnError, from_rpc_error, from_status
from .options import Call
from .decode import enum_word, split_tensors
from .tensors import Array, flat_bytes
from .v1 import attention_pb2
from .wire import Buffer, WireError, delimited, delimiter, read_fields

METHOD = "/attention.v1.AttentionService/AttendStream"

# Long enough for a message's own cost not to show.
_CHUNK_BYTES = 2 << 20
# What stands in a message beside a chunk's data, with room to spare.
_CHUNK_OVERHEAD = 64
_CALL = 1

_FIELDS = attention_pb2.AttendStreamRequest.DESCRIPTOR.fields_by_name
_HEADER = _FIELDS["header"].number
_CHUNK = _FIELDS["chunk"].number
_DATA = attention_pb2.TensorChunk.DESCRIPTOR.fields_by_name["data"].number
# The same in a chunk of the answer.
assert _DATA == attention_pb2.OutputChunk.DESCRIPTOR.fields_by_name["data"].number
_ANSWER_PARTS = {
    field.number: field.name
    for field in attention_pb2.AttendStreamResponse.DESCRIPTOR.fields
}
_SLOTS = {
    "q": attention_pb2.TENSOR_SLOT_Q,
    "k": attention_pb2.TENSOR_SLOT_K,
    "v": attention_pb2.TENSOR_SLOT_V,
    "inputs": attention_pb2.TENSOR_SLOT_INPUT,
}


def _chunks(
    slot: Any, index: int, payload: memoryview, chunk_bytes: int
) -> Iterator[bytes]:
    call = attention_pb2.AttendStreamRequest(call=_CALL).SerializeToString()
    for offset in range(0, len(payload), chunk_bytes):
        data = payload[offset : offset + chunk_bytes]
        head = attention_pb2.TensorChunk(tensor=slot, index=index, offset=offset)
        parts: list[Buffer] = [
            head.SerializeToString(),
            delimiter(_DATA, len(data)),
            data,
        ]
        yield join([call, *delimited(_CHUNK, parts)])


def messages(
    request: attention_pb2.AttendRequest, call: Call, limit: int, timeout: float
) -> Iterator[bytes]:
    """A call as a header and chunks, none of them longer than `limit`."""
    opening = attention_pb2.AttendStreamRequest(
        call=_CALL,
        timeout_ms=max(1, int(timeout * 1000)),
        max_message_bytes=limit,
    )
    header: list[Buffer] = [request.SerializeToString()]
    for number, tensor in call.tensors():
        header += tensor.field(number, with_data=False)
    yield join([opening.SerializeToString(), *delimited(_HEADER, header)])
    chunk_bytes = max(1, min(_CHUNK_BYTES, limit - _CHUNK_OVERHEAD))
    names = attention_pb2.AttendRequest.DESCRIPTOR.fields_by_number
    next_index = 0
    for number, tensor in call.tensors():
        name = names[number].name
        index = next_index if name == "inputs" else 0
        next_index += name == "inputs"
        yield from _chunks(_SLOTS[name], index, tensor.payload, chunk_bytes)


class Answer:
    """An answer as it arrives, of one message or of a header and chunks."""

    def __init__(self, bfloat16: np.dtype[Any]) -> None:
        self.response = attention_pb2.AttendResponse()
        self.tensors: dict[str, Array] = {}
        self._bfloat16 = bfloat16
        # Bytes that are still to come; before the header, unknown.
        self._missing: dict[str, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether every byte is there."""
        return self._missing == {}

    def take(self, message: bytes) -> None:
        """AttnError if the message says that the call failed."""
        for field in read_fields(message):
            name = _ANSWER_PARTS.get(field.number)
            if name == "status":
                status = attention_pb2.CallStatus.FromString(bytes(field.data))
                raise from_status(status)
            if name in ("response", "header"):
                self._open(field.data)
            elif name == "chunk":
                self._fill(field.data)

    def _open(self, data: memoryview) -> None:
        opened = split_tensors(self.response, data, self._bfloat16)
        self.tensors = opened.single()
        self._missing = opened.missing

    def _fill(self, message: memoryview) -> None:
        chunk = attention_pb2.OutputChunk()
        data = memoryview(b"")
        for field in read_fields(message):
            if field.number == _DATA:
                data = field.data
            else:
                chunk.MergeFromString(bytes(message[field.begin : field.end]))
        name = enum_word(attention_pb2.Output, chunk.tensor, "OUTPUT_").lower()
        missing = self._missing or {}
        if name not in missing:
            raise WireError(f"a chunk of {name!r}, of which nothing is missing")
        array = self.tensors[name]
        # In order, so that every byte is there when as many have come.
        begin = array.nbytes - missing[name]
        end = begin + len(data)
        if chunk.offset != begin or end > array.nbytes:
            raise WireError(f"a chunk of {name} that does not follow the others")
        flat_bytes(array)[begin:end] = np.frombuffer(data, np.uint8)
        missing[name] -= len(data)
        if missing[name] == 0:
            del missing[name]


def attend(
    channel: Channel,
    request: attention_pb2.AttendRequest,
    call: Call,
    limit: int,
    timeout: float,
) -> Answer:
    """Sends the call in messages of at most `limit` bytes and waits. AttnError."""
    answer = Answer(call.bfloat16)
    stream = channel.stream(METHOD, messages(request, call, limit, timeout), timeout)
    try:
        for message in stream:
            answer.take(message)
            if answer.complete:
                return answer
    except grpc.RpcError as error:
        raise from_rpc_error(error, channel.address) from None
    finally:
        # Also ends the sending of a call that was refused on its way.
        stream.cancel()
    raise AttnError(grpc.StatusCode.INTERNAL, "the stream ended without an answer")

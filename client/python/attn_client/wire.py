"""As much of protobuf's wire format as keeps large payloads out of its hands.

protobuf would copy a payload into a message, then into a buffer, and the other
way the same. Here a message is its small fields, as protobuf writes them, and
behind them tensors whose bytes are joined once; an answer is looked at where it
lies. Checked against protobuf itself in tests/client/python/test_wire.py.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Union

Buffer = Union[bytes, memoryview]

_VARINT = 0
_FIXED64 = 1
_DELIMITED = 2
_FIXED32 = 5
# Of a varint of 64 bits.
_LONGEST_VARINT = 10


class WireError(ValueError):
    """Bytes that are no protobuf message."""


class Field(NamedTuple):
    """One field of a message; begin is where its tag lies, end is behind it."""

    number: int
    wire_type: int
    # Of a varint; 0 otherwise.
    value: int
    # Of a delimited field: its bytes, a view.
    data: memoryview
    begin: int
    end: int


def encode_varint(value: int) -> bytes:
    """value >= 0, below 2^64."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimiter(number: int, length: int) -> bytes:
    """What stands before the `length` bytes of field `number`."""
    return encode_varint(number << 3 | _DELIMITED) + encode_varint(length)


def size_of(parts: List[Buffer]) -> int:
    """Bytes of all parts."""
    return sum(len(part) for part in parts)


def delimited(number: int, parts: List[Buffer]) -> List[Buffer]:
    """The parts as field `number` of a message around them."""
    return [delimiter(number, size_of(parts)), *parts]


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_LONGEST_VARINT):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise WireError("a number is cut off or too long")


def read_fields(message: Buffer) -> Iterator[Field]:
    """The fields of a message in the order of its bytes, which are not copied.

    WireError for what is no message.
    """
    data = memoryview(message)
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        value = 0
        length = 0
        if wire_type == _VARINT:
            value, at = _read_varint(data, at)
        elif wire_type == _DELIMITED:
            length, at = _read_varint(data, at)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise WireError(f"field {number} has the unknown wire type {wire_type}")
        if number == 0 or length > len(data) - at:
            raise WireError(f"field {number} is longer than its message")
        content = data[at : at + length]
        at += length
        yield Field(number, wire_type, value, content, begin, at)


def first_bytes(message: Buffer, number: int) -> bytes | None:
    """The first delimited field `number`; None if there is none."""
    for field in read_fields(message):
        if field.number == number and field.wire_type == _DELIMITED:
            return bytes(field.data)
    return None


def first_int(message: Buffer, number: int) -> int:
    """The first varint of field `number`; 0 if there is none."""
    for field in read_fields(message):
        if field.number == number and field.wire_type == _VARINT:
            return field.value
    return 0

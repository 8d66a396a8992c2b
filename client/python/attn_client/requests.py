"""Requests as bytes, and how large they and their answers are."""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, Sequence, Tuple, Union

import numpy.typing as npt

from .errors import refuse
from .options import Call
from .tensors import WireTensor, to_wire
from .v1 import attention_pb2
from .wire import Buffer

Index = Union[int, slice, Tuple[Union[int, None], Union[int, None]]]

# Outputs with a value for each query and key, and the bytes of one.
_SQUARE = {
    attention_pb2.OUTPUT_LOGITS: 4,
    attention_pb2.OUTPUT_MASKED_LOGITS: 4,
    attention_pb2.OUTPUT_WEIGHTS: 4,
    attention_pb2.OUTPUT_DROPOUT_KEEP: 1,
}
# Of the report, the statistics of heads and what stands before tensors, about.
_REPORT_BYTES = 16 << 10
# A year: gRPC counts nanoseconds in 64 bits, and what is beyond is over at once.
_LONGEST_TIMEOUT = 365.0 * 24 * 3600
# Values of RowStatistics, eight bytes at most.
_ROW_STATISTICS_BYTES = 8 * len(attention_pb2.RowStatistics.DESCRIPTOR.fields)


def enum_numbers(
    field: str, enum: Any, prefix: str, words: Sequence[str] | str
) -> list[Any]:
    """The numbers of enum values that are given in words, in small letters."""
    if isinstance(words, str):
        words = (words,)
    numbers = []
    for word in words:
        name = prefix + str(word).upper()
        number = enum.Value(name) if name in enum.keys() else 0
        if number == 0:
            known = [key[len(prefix) :].lower() for key, n in enum.items() if n > 0]
            refuse(field, repr(word), "some of " + ", ".join(known))
        numbers.append(number)
    return numbers


def cotangents(
    request: Any, **arrays: npt.ArrayLike | None
) -> list[tuple[int, WireTensor]]:
    """Tensors of a request beside those of its call, by the names of its fields."""
    numbers = request.DESCRIPTOR.fields_by_name
    return [
        (numbers[name].number, to_wire(name, array))
        for name, array in arrays.items()
        if array is not None
    ]


def message(
    request: Any, call: Call, extra: Sequence[tuple[int, WireTensor]] = ()
) -> list[Buffer]:
    """The parts of a request; the payloads are not copied."""
    parts: list[Buffer] = [request.SerializeToString()]
    for number, tensor in [*call.tensors(), *extra]:
        parts += tensor.field(number)
    return parts


def set_region(message: Any, region: Mapping[str, Index]) -> None:
    """Fills an InspectWindow: parts of its axes by name."""
    for axis, index in region.items():
        if axis not in message.DESCRIPTOR.fields_by_name:
            refuse("region", repr(axis), "batch, head, query or key")
        if isinstance(index, slice):
            if index.step not in (None, 1):
                refuse("region", f"a step of {index.step}", "a step of 1")
            begin, end = index.start, index.stop
        elif isinstance(index, tuple):
            begin, end = index
        else:
            begin, end = index, index + 1
        bounds = getattr(message, axis)
        bounds.SetInParent()
        if begin is not None:
            bounds.begin = begin
        if end is not None:
            bounds.end = end


def set_tiles(request: Any, tiles: tuple[int, int, str] | None) -> None:
    """Has an InspectRequest pool its views; None leaves them as they are."""
    if tiles is None:
        return
    request.tiles.query_tile, request.tiles.key_tile, pooling = tiles
    words = enum_numbers("tiles", attention_pb2.Pooling, "POOLING_", pooling)
    request.tiles.pooling = words[0]


def plan_request(call: Call) -> attention_pb2.PlanRequest:
    """The call without its payloads."""
    request = attention_pb2.PlanRequest()
    call.fill(request)
    names = request.DESCRIPTOR.fields_by_number
    for number, tensor in call.tensors():
        name = names[number].name
        info = request.inputs.add() if name == "inputs" else getattr(request, name)
        info.dtype = tensor.head.dtype
        info.shape.extend(tensor.head.shape)
        info.layout = tensor.head.layout
    return request


def answer_bytes(call: Call, outputs: Iterable[Any]) -> int:
    """About how large the answer is, or more, by the shapes of q, k and v; 0 for
    token rows, whose shapes do not tell."""
    q, k = call.q.head, call.k.head
    v = k if call.v is None else call.v.head
    if len(q.shape) == 3 and "q_offsets" in call.fields:
        row = 0  # Ragged: a row has the keys of its own sequence at most.
    elif len(q.shape) == len(k.shape) == len(v.shape) == 4:
        row = 1 if q.layout == attention_pb2.TENSOR_LAYOUT_BSHD else 2
    else:
        return 0
    wide = 2 if q.dtype == attention_pb2.DATA_TYPE_F64 else 1
    rows = math.prod(q.shape[:-1])
    answer = _REPORT_BYTES
    for output in outputs:
        if output in _SQUARE:
            answer += rows * k.shape[row] * _SQUARE[output] * wide
        elif output == attention_pb2.OUTPUT_ROW_STATISTICS:
            answer += rows * _ROW_STATISTICS_BYTES
        elif output in (
            attention_pb2.OUTPUT_OUTPUT,
            attention_pb2.OUTPUT_HEAD_OUTPUT,
        ):
            answer += rows * v.shape[-1] * 4 * wide
        else:  # lse and its like
            answer += rows * 4 * wide
    return answer


def checked_timeout(timeout: float) -> float:
    """The seconds, or a year if they are more; InvalidArgumentError unless they
    are a number above 0."""
    if not (timeout > 0 and math.isfinite(timeout)):
        refuse("timeout", timeout, "seconds, above 0")
    return min(timeout, _LONGEST_TIMEOUT)

"""Steps of sessions as messages, and their answers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, List, Sequence, Tuple, Union

import grpc
import numpy as np
import numpy.typing as npt

from .calls import reading
from .decode import report_of, split_tensors
from .errors import AttnError, from_status, refuse
from .options import LAYOUTS, PRIORITIES, naming
from .results import Report
from .tensors import Array, WireTensor, is_bfloat16, to_array, to_wire
from .v1 import attention_pb2, session_pb2
from .wire import Buffer, WireError, delimited, read_fields

Layers = Union[int, Sequence[int]]
# One array, or one for each layer.
Rows = Union[npt.ArrayLike, Sequence[npt.ArrayLike]]

_FIELDS = session_pb2.StepRequest.DESCRIPTOR.fields_by_name
_STREAMED_STEP = session_pb2.StepStreamRequest.DESCRIPTOR.fields_by_name["step"].number
_ANSWERS = session_pb2.StepStreamResponse.DESCRIPTOR.fields_by_name
_BSHD = attention_pb2.TENSOR_LAYOUT_BSHD


def _tokens_of(tensor: WireTensor) -> int:
    return tensor.array.shape[1 if tensor.head.layout == _BSHD else 2]


def _token_rows(tensor: WireTensor) -> Array:
    """[n, heads, dim], a view."""
    rows: Array = tensor.array[0]
    return rows if tensor.head.layout == _BSHD else rows.swapaxes(0, 1)


@dataclass(frozen=True)
class StepPlace:
    """What a step has of the session that it is sent to."""

    session_id: str
    epoch: int
    step: int


@dataclass(frozen=True)
class StepCall:
    """A step wherever it is made; q, k and v are one for each of `layers`."""

    layers: Tuple[int, ...]
    q: List[WireTensor]
    k: List[WireTensor]
    v: List[WireTensor]
    # Whether one layer was given without a sequence around it.
    single: bool = False
    request_id: str = ""
    priority: Any = attention_pb2.PRIORITY_UNSPECIFIED
    # What BF16 comes back as.
    bfloat16: np.dtype[Any] = np.dtype(np.uint16)

    @property
    def tokens(self) -> int:
        """How many it appends to each of its layers."""
        return _tokens_of(self.q[0])

    def rows(self) -> list[tuple[int, Array, Array]]:
        """Layer, k and v: [n, kv_heads, dim], views."""
        return [
            (layer, _token_rows(k), _token_rows(v))
            for layer, k, v in zip(self.layers, self.k, self.v)
        ]

    def message(self, place: StepPlace, position: int) -> list[Buffer]:
        """The parts of a StepRequest; the payloads are not copied."""
        head = session_pb2.StepRequest(
            session_id=place.session_id,
            epoch=place.epoch,
            step=place.step,
            position=position,
            layers=self.layers,
            request_id=self.request_id,
            priority=self.priority,
        )
        parts: list[Buffer] = [head.SerializeToString()]
        for name, tensors in (("q", self.q), ("k", self.k), ("v", self.v)):
            for tensor in tensors:
                parts += tensor.field(_FIELDS[name].number)
        return parts


@dataclass(frozen=True)
class StepAnswer:
    """The outputs of a step, one for each of its layers."""

    outputs: List[Array]
    report: Report

    def for_caller(self, call: StepCall) -> Any:
        """One array where one was given."""
        return self.outputs[0] if call.single else self.outputs


def streamed(parts: list[Buffer]) -> list[Buffer]:
    """A StepRequest as a StepStreamRequest."""
    return delimited(_STREAMED_STEP, parts)


def _check_shapes(call: StepCall) -> None:
    tokens = -1
    for name, tensors in (("q", call.q), ("k", call.k), ("v", call.v)):
        for i, tensor in enumerate(tensors):
            shape = tensor.array.shape
            if len(shape) == 4 and shape[0] == 1 and tokens in (-1, _tokens_of(tensor)):
                tokens = _tokens_of(tensor)
                continue
            axes = (
                "[1, tokens, heads, dim]"
                if tensor.head.layout == _BSHD
                else "[1, heads, tokens, dim]"
            )
            expected = f"{axes}, with as many tokens as q[0]"
            refuse(f"{name}[{i}].shape", list(shape), expected)


def _each(rows: Any, single: bool) -> list[Any]:
    with naming("q, k and v", "sequences of arrays, as layers is one"):
        return [rows] if single else list(rows)


def step_call(
    q: Rows,
    k: Rows,
    v: Rows,
    layers: Layers,
    layout: str,
    priority: str = "normal",
    request_id: str = "",
    copied: bool = False,
) -> StepCall:
    """The step that the arguments of Session.step() mean; InvalidArgumentError
    names what cannot be. With `copied` the arrays may be changed afterwards."""
    if layout not in LAYOUTS:
        refuse("layout", repr(layout), '"bhsd" or "bshd"')
    if priority not in PRIORITIES:
        refuse("priority", repr(priority), '"high", "normal" or "low"')
    single = not np.iterable(layers)
    with naming("layers", "an index, or a sequence of them"):
        given_layers: Any = [layers] if single else layers
        numbers = tuple(operator.index(layer) for layer in given_layers)
    if not numbers:
        refuse("layers", "none", "one at least")

    def wire(name: str, rows: Rows) -> list[WireTensor]:
        given = _each(rows, single)
        if len(given) != len(numbers):
            refuse(name, f"{len(given)} arrays", f"{len(numbers)}, one for each layer")
        arrays = [to_array(f"{name}[{i}]", array) for i, array in enumerate(given)]
        return [
            to_wire(
                f"{name}[{i}]",
                np.array(array) if copied else array,
                LAYOUTS[layout],
            )
            for i, array in enumerate(arrays)
        ]

    q_wire = wire("q", q)
    first = to_array("q", _each(q, single)[0])
    call = StepCall(
        layers=numbers,
        q=q_wire,
        k=wire("k", k),
        v=wire("v", v),
        single=single,
        request_id=request_id,
        priority=PRIORITIES[priority],
        bfloat16=first.dtype if is_bfloat16(first.dtype) else np.dtype(np.uint16),
    )
    _check_shapes(call)
    return call


def read_answer(data: Buffer, call: StepCall) -> StepAnswer:
    """INTERNAL unless it is a StepResponse that answers the step."""

    def read() -> StepAnswer:
        response = session_pb2.StepResponse()
        split = split_tensors(response, data, call.bfloat16)
        outputs = split.arrays.get("output", [])
        if split.missing:
            raise WireError("tensors without data")
        return StepAnswer(outputs, report_of(response.report))

    answer = reading(read)
    if len(answer.outputs) != len(call.layers):
        raise AttnError(
            grpc.StatusCode.INTERNAL,
            f"the server answered a step of {len(call.layers)} layers with "
            f"{len(answer.outputs)} outputs",
        )
    return answer


def read_streamed(data: Buffer) -> memoryview:
    """The StepResponse of a StepStreamResponse. Raises what its step ended with."""

    def read() -> memoryview:
        for field in read_fields(data):
            if field.number == _ANSWERS["status"].number:
                status = attention_pb2.CallStatus.FromString(bytes(field.data))
                raise from_status(status)
            if field.number == _ANSWERS["response"].number:
                return field.data
        raise WireError("neither a response nor a status")

    return reading(read)

"""Responses as the dataclasses of results.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Callable, TypeVar

import numpy as np

from .results import (
    AttendResult,
    CallWarning,
    Gradients,
    HeadStatistics,
    Inspection,
    KernelVerdict,
    Limits,
    Plan,
    Report,
    RowStatistics,
    ServerInfo,
    SessionInfo,
    TemperaturePoint,
    Timings,
)
from .tensors import Array, from_wire, read_tensor
from .v1 import attention_pb2
from .wire import Buffer, WireError, read_fields

T = TypeVar("T")


@dataclass(frozen=True)
class SplitTensors:
    """Tensors of a message by the names of their fields."""

    arrays: dict[str, list[Array]]
    missing: dict[str, int]
    """Bytes of those that came without data; empty of a message that is whole."""

    def single(self) -> dict[str, Array]:
        """Of fields that are not repeated."""
        return {name: arrays[0] for name, arrays in self.arrays.items()}


@lru_cache(maxsize=None)
def _tensor_fields(descriptor: Any) -> dict[int, str]:
    """Numbers and names of the fields of a message that are tensors."""
    return {
        f.number: f.name
        for f in descriptor.fields
        if f.message_type is not None
        and f.message_type.full_name == "attention.v1.Tensor"
    }


def split_tensors(
    message: Any, data: Buffer, bfloat16: np.dtype[Any]
) -> SplitTensors:
    """Reads `data` into `message`, but for its own tensors, which are copied once.
    WireError if it is malformed."""
    names = _tensor_fields(message.DESCRIPTOR)
    arrays: dict[str, list[Array]] = {}
    missing: dict[str, int] = {}
    view = memoryview(data)
    for part in read_fields(view):
        name = names.get(part.number)
        if name is None:
            message.MergeFromString(bytes(view[part.begin : part.end]))
            continue
        head, payload = read_tensor(part.data)
        array = from_wire(head, payload, bfloat16)
        arrays.setdefault(name, []).append(array)
        if len(payload) == 0 and array.nbytes > 0:
            missing[name] = array.nbytes
    return SplitTensors(arrays, missing)


def enum_word(enum: Any, value: int, prefix: str) -> str:
    if value == 0:
        return ""
    if value not in enum.values():
        return str(value)  # Of a newer server.
    return str(enum.Name(value))[len(prefix) :]


def from_message(cls: Callable[..., T], message: Any, **given: Any) -> T:
    """A dataclass of the fields of a message, but for those that are given."""
    values = {
        f.name: getattr(message, f.name)
        for f in fields(cls)
        if f.name not in given
    }
    return cls(**values, **given)


def report_of(message: Any) -> Report:
    warnings = tuple(
        from_message(
            CallWarning,
            w,
            kind=enum_word(attention_pb2.WarningKind, w.kind, "WARNING_KIND_"),
        )
        for w in message.warnings
    )
    timings = from_message(Timings, message.timings)
    return from_message(Report, message, timings=timings, warnings=warnings)


def head_statistics_of(messages: Any) -> tuple[HeadStatistics, ...]:
    return tuple(
        from_message(
            HeadStatistics,
            m,
            dead=enum_word(attention_pb2.DeadHead, m.dead, "DEAD_HEAD_"),
        )
        for m in messages
    )


def small_tensor(message: attention_pb2.Tensor) -> Array:
    """A tensor that protobuf has read."""
    return from_wire(message, message.data, np.dtype(np.uint16))


def row_statistics_of(message: Any) -> RowStatistics | None:
    """None if the message has none."""
    if not message.HasField("row_statistics"):
        return None
    rows = message.row_statistics
    return RowStatistics(
        **{
            f.name: small_tensor(getattr(rows, f.name)) for f in fields(RowStatistics)
        }
    )


def plan_of(message: Any) -> Plan:
    verdicts = tuple(from_message(KernelVerdict, v) for v in message.verdicts)
    return from_message(Plan, message, verdicts=verdicts)


def server_info_of(message: Any) -> ServerInfo:
    return from_message(
        ServerInfo,
        message,
        limits=from_message(Limits, message.limits),
        stages={
            stage.stage: tuple(member.name for member in stage.members)
            for stage in message.stages
        },
        kernels=tuple(message.kernels),
        dtypes=tuple(
            enum_word(attention_pb2.DataType, d, "DATA_TYPE_") for d in message.dtypes
        ),
    )


def session_info_of(message: Any) -> SessionInfo:
    return from_message(
        SessionInfo,
        message,
        lengths=tuple(message.lengths),
        kv_dtype=enum_word(attention_pb2.DataType, message.kv_dtype, "DATA_TYPE_"),
    )


def attend_result_of(response: Any, arrays: dict[str, Array]) -> AttendResult:
    return AttendResult(
        report=report_of(response.report),
        row_statistics=row_statistics_of(response),
        head_statistics=head_statistics_of(response.head_statistics),
        **arrays,
    )


def gradients_of(
    response: Any, arrays: dict[str, list[Array]], input_names: list[str]
) -> Gradients:
    if any(i >= len(input_names) for i in response.gradient_inputs):
        raise WireError("a gradient of an input that was not sent")
    names = [input_names[i] for i in response.gradient_inputs]
    layers = [(ref.layer, ref.tensor) for ref in response.gradient_layers]
    return Gradients(
        report=report_of(response.report),
        d_inputs=dict(zip(names, arrays.get("d_inputs", ()))),
        d_layers=dict(zip(layers, arrays.get("d_layers", ()))),
        d_scale=response.d_scale,
        d_temperatures=tuple(response.d_temperatures),
        d_softcap=response.d_softcap,
        **{n: arrays[n][0] for n in ("d_q", "d_k", "d_v") if n in arrays},
    )


def inspection_of(response: Any, arrays: dict[str, Array]) -> Inspection:
    return Inspection(
        report=report_of(response.report),
        row_statistics=row_statistics_of(response),
        head_statistics=head_statistics_of(response.head_statistics),
        sweep=tuple(
            TemperaturePoint(
                point.temperature, head_statistics_of(point.head_statistics)
            )
            for point in response.sweep
        ),
        **arrays,
    )

"""Between numpy arrays and the tensors of the wire.

| numpy | wire |
|---|---|
| float32, float16, float64 | F32, F16, F64 |
| uint16, or ml_dtypes.bfloat16 | BF16: the upper half of a float32 |
| bool, int8, int32, int64 | BOOL, I8, I32, I64 |

uint16 has no other meaning on the wire. BF16 comes back as ml_dtypes.bfloat16 if
q came as that, else as uint16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, List, Sequence

import numpy as np
import numpy.typing as npt

from .errors import refuse
from .v1 import attention_pb2
from .wire import Buffer, WireError, delimited, delimiter, read_fields

Array = npt.NDArray[Any]

_DTYPES: dict[int, np.dtype[Any]] = {
    attention_pb2.DATA_TYPE_F32: np.dtype("<f4"),
    attention_pb2.DATA_TYPE_F16: np.dtype("<f2"),
    attention_pb2.DATA_TYPE_BF16: np.dtype("<u2"),
    attention_pb2.DATA_TYPE_F64: np.dtype("<f8"),
    attention_pb2.DATA_TYPE_BOOL: np.dtype("?"),
    attention_pb2.DATA_TYPE_I8: np.dtype("i1"),
    attention_pb2.DATA_TYPE_I32: np.dtype("<i4"),
    attention_pb2.DATA_TYPE_I64: np.dtype("<i8"),
}
_CODES: dict[np.dtype[Any], Any] = {dtype: code for code, dtype in _DTYPES.items()}
_DATA_FIELD = attention_pb2.Tensor.DESCRIPTOR.fields_by_name["data"].number


@dataclass(frozen=True)
class WireTensor:
    """A tensor on its way: metadata, and the array whose memory is sent."""

    head: attention_pb2.Tensor
    array: Array

    @cached_property
    def payload(self) -> memoryview:
        """The raw bytes, row-major; a copy only of what is not contiguous."""
        if self.array.size == 0:
            return memoryview(b"")
        flat = np.ascontiguousarray(self.array).reshape(-1)
        return flat.view(np.uint8).data

    def parts(self, with_data: bool = True) -> List[Buffer]:
        """The bytes of the Tensor message."""
        head: bytes = self.head.SerializeToString()
        payload = self.payload if with_data else memoryview(b"")
        if len(payload) == 0:
            return [head]
        return [head, delimiter(_DATA_FIELD, len(payload)), payload]

    def field(self, number: int, with_data: bool = True) -> List[Buffer]:
        """The tensor as field `number` of a message."""
        return delimited(number, self.parts(with_data))


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether it is the type of ml_dtypes; numpy knows it as void."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def to_array(name: str, value: npt.ArrayLike) -> Array:
    """As an array; numbers of Python, which have no width, become float32."""
    if hasattr(value, "dtype") or hasattr(value, "__array__"):
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except ValueError:
        refuse(name, "rows of different lengths", "an array")
    return array.astype(np.float32) if array.dtype.kind in "fiu" else array


def to_wire(name: str, value: npt.ArrayLike, layout: Any = 0) -> WireTensor:
    """Any array of a dtype of the table; InvalidArgumentError for others.

    Contiguous little-endian arrays are sent from where they are.
    """
    array = to_array(name, value)
    dtype = array.dtype
    if is_bfloat16(dtype):
        array = array.view(np.uint16)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    code = _CODES.get(array.dtype)
    if code is None:
        refuse(
            name,
            f"dtype {dtype}",
            "float32, float16, float64, bfloat16 (as uint16 or of ml_dtypes), "
            "bool, int8, int32 or int64",
        )
    head = attention_pb2.Tensor(dtype=code, shape=array.shape, layout=layout)
    return WireTensor(head, array)


def data_type(name: str, dtype: npt.DTypeLike) -> Any:
    """The wire's number of a dtype; "bfloat16" is one too."""
    if dtype == "bfloat16":
        return attention_pb2.DATA_TYPE_BF16
    return to_wire(name, np.empty(0, dtype)).head.dtype


def _empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Room for a tensor of the wire. WireError for a shape that none can have."""
    try:
        return np.empty(shape, dtype)
    except (ValueError, MemoryError) as error:
        raise WireError(f"a tensor of shape {list(shape)}: {error}") from None


def flat_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous array, a view."""
    return array.reshape(-1).view(np.uint8)


def read_tensor(message: Buffer) -> tuple[attention_pb2.Tensor, memoryview]:
    """An encoded Tensor: its metadata, and its bytes where they lie."""
    head = attention_pb2.Tensor()
    data = memoryview(b"")
    for field in read_fields(message):
        if field.number == _DATA_FIELD:
            data = field.data
        else:
            head.MergeFromString(bytes(message[field.begin : field.end]))
    return head, data


def from_wire(
    head: attention_pb2.Tensor, data: Buffer, bfloat16: np.dtype[Any]
) -> Array:
    """The array of a tensor: writable memory of its own, one copy. Left to be
    filled if there is no data. WireError if they do not fit each other."""
    dtype = _DTYPES.get(head.dtype)
    if dtype is None:
        unknown = f"a tensor of the unknown dtype {head.dtype}: is this client old?"
        raise WireError(unknown)
    nbytes = math.prod(head.shape) * dtype.itemsize
    # Looked at first: a shape alone costs no memory.
    if len(data) not in (0, nbytes):
        raise WireError(f"a tensor of {nbytes} bytes has {len(data)}")
    is_bf16 = head.dtype == attention_pb2.DATA_TYPE_BF16
    array = _empty(head.shape, bfloat16 if is_bf16 else dtype)
    if len(data) > 0:
        flat_bytes(array)[:] = np.frombuffer(data, np.uint8)
    return array


def to_bfloat16(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Rounds floats to BF16, ties to even, as uint16 of the same shape."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_nan = np.isnan(np.asarray(values, np.float32))
    return np.where(is_nan, quiet_nan, rounded).astype(np.uint16)


def from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The float32 values of BF16 as uint16; exact."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(
        np.float32
    )

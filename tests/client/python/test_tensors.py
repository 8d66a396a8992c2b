"""Arrays to tensors and back."""

from __future__ import annotations

import numpy as np
import pytest

from attn_client import InvalidArgumentError, from_bfloat16, tensors, to_bfloat16
from attn_client.v1 import attention_pb2 as pb
from attn_client.wire import WireError

UINT16 = np.dtype(np.uint16)


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        ("f4", pb.DATA_TYPE_F32),
        ("f2", pb.DATA_TYPE_F16),
        ("f8", pb.DATA_TYPE_F64),
        ("u2", pb.DATA_TYPE_BF16),
        ("?", pb.DATA_TYPE_BOOL),
        ("i1", pb.DATA_TYPE_I8),
        ("i4", pb.DATA_TYPE_I32),
        ("i8", pb.DATA_TYPE_I64),
    ],
)
def test_each_dtype_there_and_back(dtype, code):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    tensor = pb.Tensor.FromString(b"".join(tensors.to_wire("x", array).parts()))
    assert tensor.dtype == code
    assert list(tensor.shape) == [3, 4]
    assert tensor.data == array.tobytes()
    back = tensors.from_wire(tensor, tensor.data, UINT16)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_a_contiguous_array_is_sent_from_where_it_is():
    array = np.arange(6, dtype=np.float32)
    payload = tensors.to_wire("x", array).payload
    assert np.shares_memory(np.frombuffer(payload, np.uint8), array)


def test_a_strided_array_is_gathered_in_the_order_of_its_axes():
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1, ::2]
    assert bytes(tensors.to_wire("x", array).payload) == array.tobytes()


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_arrays_and_scalars(shape):
    array = np.full(shape, 1.5, np.float32)
    wire = tensors.to_wire("x", array)
    assert list(wire.head.shape) == list(shape)
    assert bytes(wire.payload) == array.tobytes()
    back = tensors.from_wire(wire.head, wire.payload, UINT16)
    assert back.shape == shape
    assert np.array_equal(back, array)


def test_big_endian_arrays_are_turned_around():
    array = np.arange(3, dtype=">i4")
    assert bytes(tensors.to_wire("x", array).payload) == array.astype("<i4").tobytes()


@pytest.mark.parametrize("value", ["text", [[1, 2], [3]], np.uint32(1), None])
def test_what_is_no_tensor(value):
    with pytest.raises(InvalidArgumentError, match="^x: got "):
        tensors.to_wire("x", value)


def test_data_that_does_not_fit_its_shape():
    tensor = pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=[2], data=b"\x00" * 7)
    with pytest.raises(WireError, match="a tensor of 8 bytes has 7"):
        tensors.from_wire(tensor, tensor.data, UINT16)
    with pytest.raises(WireError, match="unknown dtype 99"):
        tensors.from_wire(pb.Tensor(dtype=99), b"", UINT16)


@pytest.mark.parametrize("shape", [[-1], [-1, -1], [2**62], [2**33, 2**33], [2**50]])
def test_a_shape_that_none_can_have(shape):
    head = pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=shape)
    for data in (b"", b"\x00" * 4):
        with pytest.raises(WireError, match="a tensor of "):
            tensors.from_wire(head, data, UINT16)


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even():
    unit = 2.0**-7  # of the last place at 1
    values = [1, 1 + unit / 2, 1 + 1.5 * unit, 1 + 0.49 * unit, -2.5, 3.4e38]
    expected = [1, 1, 1 + 2 * unit, 1, -2.5, np.inf]
    assert from_bfloat16(to_bfloat16(values)).tolist() == expected
    special = from_bfloat16(to_bfloat16([np.inf, -np.inf, np.nan, -0.0]))
    assert special[0] == np.inf and special[1] == -np.inf and np.isnan(special[2])
    assert np.signbit(special[3])


def test_every_bfloat16_survives():
    bits = np.arange(2**16, dtype=np.uint16)
    back = to_bfloat16(from_bfloat16(bits))
    nan = np.isnan(from_bfloat16(bits))
    assert np.array_equal(back[~nan], bits[~nan])
    assert np.all(np.isnan(from_bfloat16(back[nan])))


def test_nan_payloads_stay_nan():
    # Only low bits say that it is no infinity: they are cut off.
    nan = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(from_bfloat16(to_bfloat16(nan)))[0]

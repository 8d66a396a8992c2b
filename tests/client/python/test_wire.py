"""The wire format by hand, held against protobuf."""

from __future__ import annotations

import numpy as np
import pytest

from attn_client import wire
from attn_client.options import build_call
from attn_client.requests import message
from attn_client.v1 import attention_pb2 as pb


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_varints(value):
    encoded = wire.encode_varint(value)
    # A group of seven bits a byte.
    assert len(encoded) == max(1, -(-value.bit_length() // 7))
    parsed = pb.AttendStreamRequest.FromString(b"\x08" + encoded)
    assert parsed.call == value
    assert wire.first_int(b"\x08" + encoded, 1) == value


def test_a_request_is_what_protobuf_would_write():
    q = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    mask = np.array([[True, False, True]])
    call = build_call(q, q, q, mask=mask, causal=True, kv_lengths=[2])
    request = pb.AttendRequest(kernel="reference")
    call.fill(request)
    data = b"".join(message(request, call))
    expected = pb.AttendRequest()
    expected.CopyFrom(request)
    layout = pb.TENSOR_LAYOUT_BHSD
    for tensor in (expected.q, expected.k, expected.v):
        tensor.CopyFrom(
            pb.Tensor(
                dtype=pb.DATA_TYPE_F32,
                shape=q.shape,
                layout=layout,
                data=q.tobytes(),
            )
        )
    expected.inputs.add(dtype=pb.DATA_TYPE_BOOL, shape=[1, 3], data=b"\x01\x00\x01")
    assert pb.AttendRequest.FromString(data) == expected
    assert data == expected.SerializeToString()


def test_fields_are_read_where_they_lie():
    one = pb.StageMember(name="abc", summary="de")
    data = one.SerializeToString()
    found = list(wire.read_fields(data))
    assert [(x.number, bytes(x.data)) for x in found] == [(1, b"abc"), (2, b"de")]
    assert b"".join(data[x.begin : x.end] for x in found) == data
    assert found[0].data.obj is data


def test_fixed_width_fields_are_passed_over():
    stats = pb.HeadStatistics(batch=3, mean_entropy=1.5, head=4)
    numbers = {x.number: x for x in wire.read_fields(stats.SerializeToString())}
    assert numbers[1].value == 3
    assert np.frombuffer(numbers[5].data, "<f8") == 1.5


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",  # a varint without its number
        b"\x08" + b"\xff" * 11,  # one that is too long
        b"\x0a\x05abc",  # a field that is cut off
        b"\x0d\x00\x00",  # four bytes, of which two are there
        b"\x0b",  # a group
        b"\x02\x00",  # field 0
    ],
)
def test_bytes_that_are_no_message(data):
    with pytest.raises(wire.WireError):
        list(wire.read_fields(data))

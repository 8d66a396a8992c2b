"""scaled_dot_product_attention() means what PyTorch's documentation says."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import attn_client
import formulas as f
from attn_client import (
    InvalidArgumentError,
    from_bfloat16,
    scaled_dot_product_attention,
    to_bfloat16,
)


def documented(
    query, key, value, attn_mask=None, is_causal=False, scale=None, enable_gqa=False
):
    """The code of torch.nn.functional.scaled_dot_product_attention's page, in
    float64; 0 for a row without a key."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    rows, keys = query.shape[-2], key.shape[-2]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    bias = np.zeros((rows, keys))
    if is_causal:
        bias[~np.tril(np.ones((rows, keys), bool), 0)] = -np.inf
    if attn_mask is not None:
        attn_mask = np.asarray(attn_mask)
        if attn_mask.dtype == np.bool_:
            bias = np.where(attn_mask, 0.0, -np.inf)
        else:
            bias = bias + attn_mask
    if enable_gqa:
        key = np.repeat(key, query.shape[-3] // key.shape[-3], -3)
        value = np.repeat(value, query.shape[-3] // value.shape[-3], -3)
    return f.softmax(query @ key.swapaxes(-1, -2) * factor + bias) @ value


@pytest.fixture
def sdpa(client):
    def call(*arguments: Any, **options: Any) -> Any:
        return scaled_dot_product_attention(*arguments, client=client, **options)

    return call


def expect(result, expected, tolerance=3e-6):
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_the_signature_is_that_of_torch():
    parameters = inspect.signature(scaled_dot_product_attention).parameters
    positional = {
        name: p.default
        for name, p in parameters.items()
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    assert positional == {
        "query": inspect.Parameter.empty,
        "key": inspect.Parameter.empty,
        "value": inspect.Parameter.empty,
        "attn_mask": None,
        "dropout_p": 0.0,
        "is_causal": False,
        "scale": None,
        "enable_gqa": False,
    }


@pytest.mark.parametrize(("rows", "keys"), [(5, 5), (3, 6), (6, 3), (1, 4)])
def test_is_causal_is_aligned_top_left(sdpa, rng, rows, keys):
    q = f.draw(rng, 2, 3, rows, 8)
    k, v = f.draw(rng, 2, 3, keys, 8), f.draw(rng, 2, 3, keys, 4)
    output = sdpa(q, k, v, is_causal=True)
    expect(output, documented(q, k, v, is_causal=True))
    # Whatever there are of keys, the first query sees the first alone.
    expect(output[:, :, 0], v[:, :, 0])


@pytest.mark.parametrize(
    "shape",
    [
        (5, 7),
        (7,),
        (5, 1),
        (1, 7),
        (3, 5, 7),
        (1, 5, 7),
        (3, 1, 7),
        (2, 1, 5, 7),
        (2, 3, 5, 7),
        (1, 3, 1, 7),
        (2, 1, 1, 1),
        (),
    ],
)
def test_masks_of_every_shape_that_broadcasts(sdpa, rng, shape):
    q, k, v = (f.draw(rng, 2, 3, n, 8) for n in (5, 7, 7))
    allowed = rng.random(shape) < 0.7
    full = np.broadcast_to(allowed, (2, 3, 5, 7))
    expect(sdpa(q, k, v, allowed), documented(q, k, v, full))
    added = rng.standard_normal(shape).astype(np.float32)
    expect(sdpa(q, k, v, added), documented(q, k, v, added))


def test_bool_true_attends_and_floats_are_added(sdpa):
    q = np.zeros((1, 1, 1, 2), np.float32)
    k = np.zeros((1, 1, 2, 2), np.float32)
    v = np.array([[[[1.0], [5.0]]]], np.float32)
    expect(sdpa(q, k, v, np.array([[True, False]])), np.full((1, 1, 1, 1), 1.0))
    # Logits 0 and ln 3: weights 1/4 and 3/4.
    added = np.array([[0.0, np.log(3.0)]], np.float32)
    expect(sdpa(q, k, v, added), np.full((1, 1, 1, 1), 4.0))
    expect(sdpa(q, k, v, np.zeros((1, 2), bool)), np.zeros((1, 1, 1, 1)))


@pytest.mark.parametrize(
    ("lead_q", "lead_k", "lead_v"),
    [
        ((), (), ()),
        ((3,), (3,), (3,)),
        ((2, 3), (2, 3), (2, 3)),
        ((2, 2, 3), (2, 2, 3), (2, 2, 3)),
        ((2, 3), (1, 3), (2, 1)),
        ((2, 4), (2, 1), (2, 1)),
        ((2, 1), (2, 4), (2, 4)),
        ((4,), (2, 1), ()),
        ((), (2, 3), (3,)),
        ((2, 1, 3), (4, 3), (1, 1, 1)),
    ],
)
def test_leading_axes_broadcast(sdpa, rng, lead_q, lead_k, lead_v):
    q = f.draw(rng, *lead_q, 3, 4)
    k = f.draw(rng, *lead_k, 5, 4)
    v = f.draw(rng, *lead_v, 5, 2)
    expect(sdpa(q, k, v), documented(q, k, v))


def test_a_mask_over_some_of_many_batch_axes(sdpa, rng):
    q, k, v = (f.draw(rng, 2, 3, 4, n, 8) for n in (3, 5, 5))
    for shape in ((2, 1, 1, 3, 5), (3, 4, 3, 5), (2, 3, 1, 1, 5), (1, 1, 4, 3, 5)):
        mask = rng.standard_normal(shape).astype(np.float32)
        expect(sdpa(q, k, v, mask), documented(q, k, v, mask))


@pytest.mark.parametrize(("k_heads", "v_heads"), [(2, 2), (1, 1), (6, 6), (2, 3)])
def test_enable_gqa_repeats_heads(sdpa, rng, k_heads, v_heads):
    q = f.draw(rng, 2, 6, 3, 8)
    k, v = f.draw(rng, 2, k_heads, 5, 8), f.draw(rng, 2, v_heads, 5, 4)
    expected = documented(q, k, v, is_causal=True, enable_gqa=True)
    expect(sdpa(q, k, v, is_causal=True, enable_gqa=True), expected)


def test_scale_is_the_whole_factor(sdpa, rng):
    q, k, v = (f.draw(rng, 1, 1, 4, 16) for _ in range(3))
    expect(sdpa(q, k, v, scale=0.5), documented(q, k, v, scale=0.5))
    expect(sdpa(q, k, v, scale=0.0), np.broadcast_to(v.mean(2), (1, 1, 4, 16)))


@pytest.mark.parametrize(("dtype", "tolerance"), [("f2", 3e-3), ("f8", 1e-13)])
def test_the_output_has_the_dtype_of_query(sdpa, rng, dtype, tolerance):
    q, k, v = (f.draw(rng, 1, 2, 4, 8, dtype=dtype) for _ in range(3))
    output = sdpa(q, k, v)
    assert output.dtype == np.dtype(dtype)
    expect(output, documented(q, k, v), tolerance)


def test_bfloat16_as_uint16(sdpa, rng):
    q, k, v = (to_bfloat16(f.draw(rng, 1, 2, 4, 8)) for _ in range(3))
    expected = documented(*(from_bfloat16(x) for x in (q, k, v)))
    expect(from_bfloat16(sdpa(q, k, v)), expected, 2**-7)


def test_no_keys_and_no_batch(sdpa, rng):
    q = f.draw(rng, 1, 2, 3, 4)
    none = np.zeros((1, 2, 0, 4), np.float32)
    expect(sdpa(q, none, none), np.zeros((1, 2, 3, 4)))
    assert sdpa(q[:0], q[:0], q[:0]).shape == (0, 2, 3, 4)


def test_dropout_drops_by_its_seed(sdpa, rng):
    q, k = f.draw(rng, 1, 2, 6, 8), f.draw(rng, 1, 2, 6, 8)
    # With the identity for values the output is the weights.
    v = np.broadcast_to(np.eye(6, dtype=np.float32), (1, 2, 6, 6))
    first = sdpa(q, k, v, dropout_p=0.5, dropout_seed=3)
    assert np.array_equal(first, sdpa(q, k, v, dropout_p=0.5, dropout_seed=3))
    kept = first != 0
    assert 0 < kept.sum() < kept.size
    expect(first, 2 * f.softmax(f.scores(q, k)) * kept)
    drawn = [sdpa(q, k, v, dropout_p=0.5) for _ in range(2)]
    assert not np.array_equal(*drawn)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"is_causal": True, "attn_mask": np.ones((3, 3), bool)}, "attn_mask", "one"),
        ({"attn_mask": np.ones((3, 3), np.int32)}, "attn_mask", "int32"),
        ({"attn_mask": np.ones((2, 3), bool)}, "attn_mask", "broadcasts to (1, 2, 3"),
        ({"attn_mask": np.ones((5, 2, 3, 3), bool)}, "attn_mask", "broadcasts to"),
        ({"key": np.ones((1, 2, 3, 4))}, "key", "float32, as query"),
        ({"key": np.ones((1, 5, 3, 4), np.float32)}, "query and key", "broadcast"),
        ({"value": np.ones(4, np.float32)}, "value", "1 axes"),
        ({"key": np.ones((1, 2, 3, 5), np.float32)}, "k.shape", "4"),
        ({"value": np.ones((1, 2, 4, 4), np.float32)}, "v.shape", "3"),
        ({"dropout_p": 1.5}, "spec.dropout.p", "1.5"),
    ],
)
def test_what_cannot_be_meant(sdpa, rng, change, field, words):
    call = {name: f.draw(rng, 1, 2, 3, 4) for name in ("query", "key", "value")}
    with pytest.raises(InvalidArgumentError) as refused:
        sdpa(**{**call, **change})
    assert refused.value.field == field
    assert words in refused.value.message


def test_gqa_heads_that_do_not_divide(sdpa, rng):
    q, k = f.draw(rng, 1, 5, 3, 4), f.draw(rng, 1, 2, 3, 4)
    with pytest.raises(InvalidArgumentError, match="a divisor of query's 5"):
        sdpa(q, k, k, enable_gqa=True)


def test_without_a_client_the_environment_names_the_server(server, rng, monkeypatch):
    monkeypatch.setenv("ATTN_ADDRESS", server.address)
    monkeypatch.setattr("attn_client.sdpa._default_client", None)
    q = f.draw(rng, 2, 3, 4)
    expect(scaled_dot_product_attention(q, q, q), documented(q, q, q))
    client = attn_client.default_client()
    assert client.address == server.address
    assert attn_client.default_client() is client
    client.close()


class TestTorch:
    """Only where torch is there; nothing asks for it."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch", reason="PyTorch is not installed")

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
    def test_tensors_in_and_out(self, torch, sdpa, rng, dtype):
        q, k, v = (
            torch.from_numpy(f.draw(rng, 2, 3, n, 8)).to(getattr(torch, dtype))
            for n in (4, 6, 6)
        )
        output = sdpa(q, k, v, is_causal=True)
        assert isinstance(output, torch.Tensor)
        assert output.dtype == q.dtype
        wide = [x.double().numpy() for x in (q, k, v)]
        tolerance = {"float32": 3e-6, "float64": 1e-13, "float16": 3e-3}
        expected = documented(*wide, is_causal=True)
        expect(output.double().numpy(), expected, tolerance.get(dtype, 2**-6))

    @pytest.mark.parametrize(("rows", "keys"), [(3, 6), (6, 3), (5, 5)])
    def test_the_same_as_torch_itself(self, torch, sdpa, rng, rows, keys):
        functional = torch.nn.functional
        theirs = getattr(functional, "scaled_dot_product_attention", None)
        if theirs is None:  # 1.13 has it under another name, with the weights.

            def theirs(*arguments, **options):
                named = functional._scaled_dot_product_attention
                return named(*arguments, need_attn_weights=False, **options)[0]

        q, k, v = (
            torch.from_numpy(f.draw(rng, 2, 3, n, 8)) for n in (rows, keys, keys)
        )
        allowed = torch.from_numpy(rng.random((rows, keys)) < 0.7)
        allowed[:, 0] = True
        for options in (
            {},
            {"is_causal": True},
            {"attn_mask": allowed},
            {"attn_mask": torch.from_numpy(f.draw(rng, 2, 3, rows, keys))},
        ):
            expected = theirs(q, k, v, **options).numpy()
            expect(sdpa(q, k, v, **options).numpy(), expected)

    def test_strided_tensors_and_masks(self, torch, sdpa, rng):
        q, k, v = (
            torch.from_numpy(f.draw(rng, 2, n, 3, 8)).transpose(1, 2) for n in (4, 6, 6)
        )
        mask = torch.from_numpy(rng.random((4, 6)) < 0.7)
        expected = documented(q.numpy(), k.numpy(), v.numpy(), mask.numpy())
        expect(sdpa(q, k, v, attn_mask=mask).numpy(), expected)

    def test_gradients_do_not_flow_unseen(self, torch, sdpa):
        q = torch.zeros(1, 1, 2, 2, requires_grad=True)
        with pytest.raises(InvalidArgumentError, match="requires gradients"):
            sdpa(q, q, q)

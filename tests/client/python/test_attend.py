"""attend(): every option against the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

import formulas as f
from attn_client import InvalidArgumentError, from_bfloat16, to_bfloat16
from attn_client.v1 import attention_pb2 as pb

# What float32 sums of a few dozen terms may be off.
TOLERANCE = 2e-6


@pytest.fixture
def qkv(rng):
    return f.draw(rng, 2, 4, 5, 8), f.draw(rng, 2, 2, 7, 8), f.draw(rng, 2, 2, 7, 6)


def expect(result, expected, tolerance=TOLERANCE):
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("f4", 2e-6), ("f8", 1e-13), ("f2", 2e-3)]
)
def test_softmax_of_scaled_scores_in_each_dtype(client, qkv, dtype, tolerance):
    q, k, v = (x.astype(dtype) for x in qkv)
    output = client.attend(q, k, v).output
    assert output.dtype == np.dtype(dtype)
    assert output.shape == (2, 4, 5, 6)
    expect(output, f.weigh(f.softmax(f.scores(q, k)), v), tolerance)


def test_bfloat16_goes_and_comes_as_uint16(client, qkv):
    q, k, v = (to_bfloat16(x) for x in qkv)
    output = client.attend(q, k, v).output
    assert output.dtype == np.uint16
    q, k, v = (from_bfloat16(x) for x in (q, k, v))
    # bfloat16 has 8 bits of significand.
    expect(from_bfloat16(output), f.weigh(f.softmax(f.scores(q, k)), v), 2**-7)


def test_output_dtype_is_another_than_that_of_q(client, qkv):
    q, k, v = (x.astype(np.float16) for x in qkv)
    output = client.attend(q, k, v, output_dtype=np.float32).output
    assert output.dtype == np.float32
    expect(output, f.weigh(f.softmax(f.scores(q, k)), v), 2e-3)
    bits = client.attend(q, k, v, output_dtype="bfloat16").output
    expect(from_bfloat16(bits), output, 2**-7)


@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
def test_causal_by_either_alignment(client, qkv, alignment):
    q, k, v = qkv
    allowed = getattr(f, alignment)(5, 7)
    weights = f.softmax(f.exclude(f.scores(q, k), allowed))
    result = client.attend(
        q, k, v, causal=True, alignment=alignment, outputs=("output", "weights")
    )
    expect(result.weights, weights)
    expect(result.output, f.weigh(weights, v))


def test_causal_without_alignment_is_refused_where_it_matters(client, qkv):
    q, k, v = qkv
    with pytest.raises(InvalidArgumentError, match="alignment"):
        client.attend(q, k, v, causal=True)
    expected = f.softmax(f.exclude(f.scores(q, k[:, :, :5]), f.top_left(5, 5)))
    result = client.attend(
        q, k[:, :, :5], v[:, :, :5], causal=True, outputs=["weights"]
    )
    expect(result.weights, expected)
    assert result.output is None


@pytest.mark.parametrize("window", [(1, 2), (0, 0), (2, None), (None, 0)])
def test_window_distances_are_inclusive(client, qkv, window):
    q, k, v = qkv
    left, right = (np.inf if side is None else side for side in window)
    behind = np.arange(5)[:, None] - np.arange(7)[None, :]
    allowed = (behind <= left) & (-behind <= right)
    weights = f.softmax(f.exclude(f.scores(q, k), allowed))
    result = client.attend(q, k, v, window=window, alignment="top_left")
    expect(result.output, f.weigh(weights, v))


def test_mask_true_may_attend_and_an_empty_row_gives_0(client, qkv, rng):
    q, k, v = qkv
    mask = rng.random((2, 1, 5, 7)) < 0.6
    mask[1, 0, 2] = False
    logits = f.exclude(f.scores(q, k), mask)
    result = client.attend(q, k, v, mask=mask, outputs=("output", "lse"))
    expect(result.output, f.weigh(f.softmax(logits), v))
    expect(result.lse, f.log_sum_exp(logits))
    assert np.all(result.output[1, :, 2] == 0)
    assert np.all(result.lse[1, :, 2] == -np.inf)
    assert result.report.fully_masked_rows == 4
    assert [w.kind for w in result.report.warnings] == ["FULLY_MASKED_ROWS"]


def test_bias_scale_softcap_and_temperature_in_their_order(client, qkv, rng):
    q, k, v = qkv
    bias = f.draw(rng, 4, 5, 7)
    bias[0, 0, 0] = -np.inf
    raw = f.scores(q, k, 0.7)
    temperature = np.array([0.5, 1.0, 1.5, 2.0])
    final = (2.5 * np.tanh(raw / 2.5) + bias) / temperature[:, None, None]
    result = client.attend(
        q,
        k,
        v,
        scale=0.7,
        softcap=2.5,
        bias=bias,
        temperature=temperature.tolist(),
        outputs=("output", "logits", "masked_logits", "lse"),
    )
    expect(result.logits, raw)
    expect(result.masked_logits, final)
    expect(result.lse, f.log_sum_exp(final))
    expect(result.output, f.weigh(f.softmax(final), v))
    assert result.report.effective_scale == pytest.approx(0.7)


def test_one_temperature_divides_all_heads(client, qkv):
    q, k, v = qkv
    expected = f.softmax(f.scores(q, k) / 3)
    expect(client.attend(q, k, v, temperature=3, outputs=["weights"]).weights, expected)


def test_alibi_slopes(client, qkv):
    q, k, v = qkv
    distance = np.abs(np.arange(5)[:, None] + 7 - 5 - np.arange(7)[None, :])
    given = np.array([0.1, 0.2, 0.3, 0.4])
    # Published for four heads: 2^-2, 2^-4, 2^-6, 2^-8.
    published = 2.0 ** -np.array([2, 4, 6, 8])
    for option, slopes in ((given.tolist(), given), (True, published)):
        logits = f.scores(q, k) - slopes[:, None, None] * distance
        output = client.attend(q, k, v, alibi=option).output
        expect(output, f.weigh(f.softmax(logits), v))


def test_a_sink_joins_the_sum_and_no_value(client, qkv, rng):
    q, k, v = qkv
    sink = f.draw(rng, 4)
    logits = f.scores(q, k)
    column = np.broadcast_to(sink[None, :, None, None], (2, 4, 5, 1))
    with_sink = np.concatenate([logits, column], -1)
    result = client.attend(
        q, k, v, sink=sink, outputs=("output", "lse", "lse_with_sink")
    )
    expect(result.output, f.weigh(f.softmax(with_sink)[..., :-1], v))
    expect(result.lse, f.log_sum_exp(logits))
    expect(result.lse_with_sink, f.log_sum_exp(with_sink))


def test_top_k_keeps_the_largest_logits(client, qkv):
    q, k, v = qkv
    logits = f.scores(q, k)
    third = np.sort(logits, -1)[..., -3:-2]
    expected = f.weigh(f.softmax(f.exclude(logits, logits >= third)), v)
    expect(client.attend(q, k, v, top_k=3).output, expected)


def test_top_p_keeps_the_fewest_keys_that_sum_to_p(client, qkv):
    q, k, v = qkv
    logits = f.scores(q, k)
    order = np.argsort(-logits, -1)
    sorted_weights = np.take_along_axis(f.softmax(logits), order, -1)
    before = np.cumsum(sorted_weights, -1) - sorted_weights
    kept = np.zeros(logits.shape, bool)
    np.put_along_axis(kept, order, before < 0.6, -1)
    expected = f.softmax(f.exclude(logits, kept))
    expect(client.attend(q, k, v, top_p=0.6, outputs=["weights"]).weights, expected)


def test_normalizers_by_name_and_by_message(client, qkv):
    q, k, v = qkv
    x = f.scores(q, k)
    off_by_one = np.exp(x) / (1 + np.exp(x).sum(-1, keepdims=True))
    power = pb.Normalizer(relu=pb.ReluNormalizer(power=2))
    for normalizer, weights in (
        ("softmax", f.softmax(x)),
        ("softmax_plus", off_by_one),
        ("sigmoid", 1 / (1 + np.exp(-x))),
        ("relu", np.maximum(x, 0)),
        ("identity", x),
        ("hard", (x == x.max(-1, keepdims=True)).astype(float)),
        (power, np.maximum(x, 0) ** 2),
    ):
        result = client.attend(q, k, v, normalizer=normalizer, outputs=["weights"])
        expect(result.weights, weights, 1e-5)


def test_a_spec_reaches_what_has_no_option(client, qkv, rng):
    q, k, v = qkv
    weight = f.draw(rng, 8, 8)
    spec = pb.AttentionSpec()
    spec.score.bilinear.weight.input = 0
    spec.score.bilinear.scale = 0.25
    kept = spec.SerializeToString()
    # The bias is an input too: it must not take the place of the first.
    bias = f.draw(rng, 5, 7)
    output = client.attend(q, k, v, spec=spec, inputs=[weight], bias=bias).output
    logits = f.scores(q @ weight, k, 0.25) + bias
    expect(output, f.weigh(f.softmax(logits), v), 1e-5)
    assert spec.SerializeToString() == kept


def test_lengths_bound_what_is_read(client, qkv):
    q, k, v = (x.copy() for x in qkv)
    k[0, :, 3:] = np.nan
    v[0, :, 3:] = np.nan
    output = client.attend(q, k, v, q_lengths=[4, 5], kv_lengths=[3, 7]).output
    first = f.weigh(f.softmax(f.scores(q[:1], k[:1, :, :3])), v[:1, :, :3])
    expect(output[0, :, :4], first[0, :, :4])
    assert np.all(output[0, :, 4:] == 0)
    expect(output[1:], f.weigh(f.softmax(f.scores(q[1:], k[1:])), v[1:]))


def test_ragged_sequences_by_offsets(client, rng):
    lengths, kv_lengths = [3, 1, 4], [2, 5, 4]
    q = f.draw(rng, sum(lengths), 4, 8)
    k = f.draw(rng, sum(kv_lengths), 2, 8)
    v = f.draw(rng, sum(kv_lengths), 2, 6)
    starts = np.cumsum([0, *lengths])
    kv_starts = np.cumsum([0, *kv_lengths])
    output = client.attend(q, k, v, q_offsets=starts, kv_offsets=kv_starts).output
    assert output.shape == (8, 4, 6)
    for i in range(3):
        rows = slice(starts[i], starts[i + 1])
        keys = slice(kv_starts[i], kv_starts[i + 1])
        q_i, k_i, v_i = (
            x.swapaxes(0, 1)[None] for x in (q[rows], k[keys], v[keys])
        )
        expected = f.weigh(f.softmax(f.scores(q_i, k_i)), v_i)
        expect(output[rows].swapaxes(0, 1)[None], expected)


def test_layout_bshd_goes_in_and_comes_out(client, qkv):
    q, k, v = qkv
    moved = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in qkv]
    output = client.attend(*moved, layout="bshd").output
    assert output.shape == (2, 5, 4, 6)
    expect(output.swapaxes(1, 2), f.weigh(f.softmax(f.scores(q, k)), v))


def test_dropout_drops_the_same_weights_for_a_seed(client, qkv):
    q, k, v = qkv
    options = {"dropout_p": 0.4, "outputs": ("output", "dropout_keep", "weights")}
    first = client.attend(q, k, v, dropout_seed=7, **options)
    again = client.attend(q, k, v, dropout_seed=7, **options)
    other = client.attend(q, k, v, dropout_seed=8, **options)
    assert first.dropout_keep.dtype == np.bool_
    assert np.array_equal(first.dropout_keep, again.dropout_keep)
    assert not np.array_equal(first.dropout_keep, other.dropout_keep)
    expect(first.weights, f.softmax(f.scores(q, k)))
    kept = f.softmax(f.scores(q, k)) * first.dropout_keep / 0.6
    expect(first.output, f.weigh(kept, v))


def test_statistics_of_rows_and_heads(client, qkv):
    q, k, v = qkv
    weights = f.softmax(f.scores(q, k))
    entropy = -(weights * np.log(weights)).sum(-1)
    result = client.attend(q, k, v, outputs=("row_statistics", "head_statistics"))
    rows = result.row_statistics
    expect(rows.entropy, entropy)
    expect(rows.peak_weight, weights.max(-1))
    assert rows.top_key.dtype == np.int64
    assert np.array_equal(rows.top_key, weights.argmax(-1))
    assert np.all(rows.visible_keys == 7)
    assert [(h.batch, h.head) for h in result.head_statistics] == [
        (b, h) for b in range(2) for h in range(4)
    ]
    means = [h.mean_entropy for h in result.head_statistics]
    expect(np.reshape(means, (2, 4)), entropy.mean(-1))


def test_results_are_writable_memory_of_their_own(client, qkv):
    output = client.attend(*qkv).output
    output += 1
    assert output.flags.c_contiguous
    assert output.flags.aligned


def test_arrays_of_any_strides_and_byte_order(client, qkv):
    q, k, v = qkv
    expected = f.weigh(f.softmax(f.scores(q, k)), v)
    twice = np.repeat(k, 2, axis=2)
    for q_i, k_i in (
        (np.asfortranarray(q), twice[:, :, ::2]),
        (q.swapaxes(2, 3).copy().swapaxes(2, 3), k[:, :, ::-1].copy()[:, :, ::-1]),
        (q.astype(">f4"), k.astype(">f4")),
    ):
        expect(client.attend(q_i, k_i, v).output, expected)


def test_nested_lists_are_float32(client):
    output = client.attend([[[[1, 0]]]], [[[[1, 0], [0, 1]]]], [[[[1], [3]]]]).output
    assert output.dtype == np.float32
    weights = f.softmax(np.array([[1 / np.sqrt(2), 0]]))
    expect(output[0, 0], weights @ [[1.0], [3.0]])


def test_a_kernel_by_name(client, qkv):
    assert client.attend(*qkv, kernel="reference").report.kernel == "reference"
    with pytest.raises(InvalidArgumentError) as refused:
        client.attend(*qkv, kernel="warp")
    assert refused.value.field == "kernel"


def test_request_id_and_priority(client, qkv):
    report = client.attend(*qkv, request_id="abc-1", priority="low").report
    assert report.request_id == "abc-1"
    assert report.pipeline.endswith("softmax")


def test_bfloat16_of_ml_dtypes_comes_back_as_such(client, qkv):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in qkv)
    output = client.attend(q, k, v).output
    assert output.dtype == ml_dtypes.bfloat16
    wide = [x.astype(np.float64) for x in (q, k, v)]
    expected = f.weigh(f.softmax(f.scores(*wide[:2])), wide[2])
    expect(output.astype(np.float64), expected, 2**-7)

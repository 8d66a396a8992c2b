"""inspect(), plan(), info() and health()."""

from __future__ import annotations

import numpy as np
import pytest

import attn_client
import formulas as f
from attn_client import InvalidArgumentError, NotFoundError


@pytest.fixture
def qkv(rng):
    return f.draw(rng, 2, 2, 6, 8), f.draw(rng, 2, 2, 6, 8), f.draw(rng, 2, 2, 6, 4)


def expect(result, expected):
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6)


def test_views_of_a_region(client, qkv):
    q, k, v = qkv
    logits = f.scores(q, k)
    masked = f.exclude(logits, f.top_left(6, 6))
    seen = client.inspect(
        q,
        k,
        v,
        causal=True,
        views=("logits", "masked_logits", "weights", "contribution"),
        region={"batch": 1, "head": slice(0, 1), "query": (2, 5), "key": (None, 4)},
    )
    part = (slice(1, 2), slice(0, 1), slice(2, 5), slice(0, 4))
    expect(seen.logits, logits[part])
    expect(seen.masked_logits, masked[part])
    expect(seen.weights, f.softmax(masked)[part])
    norms = np.linalg.norm(v.astype(np.float64), axis=-1)[:, :, None, :]
    expect(seen.contribution, (f.softmax(masked) * norms)[part])
    assert seen.gradient_weight is None


def test_tiles_are_pooled(client, qkv):
    q, k, v = qkv
    tiles = f.scores(q, k).reshape(2, 2, 3, 2, 2, 3)
    seen = client.inspect(q, k, v, views="logits", tiles=(2, 3, "max"))
    expect(seen.logits, tiles.max((3, 5)))
    seen = client.inspect(q, k, v, views="logits", tiles=(2, 3, "mean"))
    expect(seen.logits, tiles.mean((3, 5)))


def test_a_sweep_over_temperatures(client, qkv):
    q, k, v = qkv
    seen = client.inspect(q, k, v, sweep_temperatures=[0.5, 2.0])
    assert [point.temperature for point in seen.sweep] == [0.5, 2.0]
    for point in seen.sweep:
        weights = f.softmax(f.scores(q, k) / point.temperature)
        entropy = -(weights * np.log(weights)).sum(-1).mean(-1)
        found = [h.mean_entropy for h in point.head_statistics]
        expect(np.reshape(found, (2, 2)), entropy)


def test_gradient_times_weight(client, qkv, rng):
    q, k, v = qkv
    d_output = f.draw(rng, 2, 2, 6, 4)
    weights = f.softmax(f.scores(q, k))
    expected = weights * (d_output @ v.astype(np.float64).swapaxes(-1, -2))
    seen = client.inspect(q, k, v, views=["gradient_weight"], d_output=d_output)
    expect(seen.gradient_weight, expected)


def test_what_cannot_be_shown_is_refused(client, qkv):
    for options, words in (
        ({"views": ["feelings"]}, "some of logits"),
        ({"region": {"time": 1}}, "batch, head, query or key"),
        ({"region": {"key": slice(0, 6, 2)}}, "a step of 1"),
        ({"region": {"key": (0, 60)}}, "window.key"),
        ({"tiles": (2, 2, "median")}, "some of mean"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            client.inspect(*qkv, **options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("region", {"key": (0, 1, 2)}),
        ("region", {"key": "first"}),
        ("tiles", (2, 2)),
        ("tiles", (2, 2.5, "mean")),
        ("sweep_temperatures", ["hot"]),
    ],
)
def test_a_value_of_another_kind_is_named(client, qkv, field, value):
    with pytest.raises(InvalidArgumentError, match=f"^{field}: expected ") as refused:
        client.inspect(*qkv, **{field: value})
    assert refused.value.field == field


def test_plan_needs_no_memory_for_its_tensors(client):
    # 2 TiB of keys, if they were there.
    q = np.broadcast_to(np.float32(0), (1, 8, 1, 64))
    k = np.broadcast_to(np.float32(0), (1, 8, 2**30, 64))
    plan = client.plan(q, k, k, causal=True, alignment="bottom_right")
    assert plan.effective_scale == pytest.approx(1 / 8)
    # Two products of 64 multiplications and additions for each pair.
    assert plan.flops == pytest.approx(2 * 2 * 64 * 8 * 2**30)
    verdicts = {v.kernel: v for v in plan.verdicts}
    assert verdicts[plan.kernel].supported
    assert not verdicts["linear"].supported and verdicts["linear"].reason


def test_plan_refuses_what_attend_would(client, qkv):
    q, k, v = qkv
    with pytest.raises(InvalidArgumentError) as refused:
        client.plan(q, k[:, :1], v)
    assert refused.value.field == "v.shape"


def test_info_tells_what_there_is(client):
    info = client.info()
    assert info.version == attn_client.__version__
    assert "reference" in info.kernels
    assert "softmax" in info.stages["normalizer"]
    assert set(info.dtypes) == {"F32", "F16", "BF16", "F64"}
    assert info.limits.max_message_bytes == 256 << 20
    assert info.compute_threads >= 1


def test_health_of_the_server_and_of_services(client):
    assert client.health() == "SERVING"
    assert client.health("attention.v1.AttentionService") == "SERVING"
    with pytest.raises(NotFoundError):
        client.health("no.such.Service")

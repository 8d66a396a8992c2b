"""backward(): gradients against closed forms and central differences."""

from __future__ import annotations

import numpy as np
import pytest

import formulas as f
from attn_client import InvalidArgumentError
from attn_client.v1 import attention_pb2 as pb


@pytest.fixture
def qkv(rng):
    return tuple(
        f.draw(rng, *shape, dtype=np.float64)
        for shape in ((1, 4, 3, 5), (1, 2, 4, 5), (1, 2, 4, 6))
    )


def expect(result, expected, tolerance=1e-7):
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_gradients_of_softmax_in_closed_form(client, qkv, rng):
    q, k, v = (x.astype(np.float32) for x in qkv)
    d_output = f.draw(rng, 1, 4, 3, 6)
    weights = f.softmax(f.scores(q, k))
    d_weights = d_output @ f.by_query_head(v, 4).swapaxes(-1, -2)
    d_logits = weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True))
    d_q = d_logits @ f.by_query_head(k, 4) * 5**-0.5
    d_k = d_logits.swapaxes(-1, -2) @ q * 5**-0.5
    d_v = weights.swapaxes(-1, -2) @ d_output
    found = client.backward(q, k, v, d_output=d_output)
    expect(found.d_q, d_q, 5e-6)
    # Two query heads share a head of k and v.
    expect(found.d_k, d_k.reshape(1, 2, 2, 4, 5).sum(2), 5e-6)
    expect(found.d_v, d_v.reshape(1, 2, 2, 4, 6).sum(2), 5e-6)
    assert found.d_q.dtype == np.float32
    assert found.d_inputs == {}


def test_gradients_of_options_by_their_names(client, qkv, rng):
    q, k, v = qkv
    d_output = f.draw(rng, 1, 4, 3, 6, dtype=np.float64)
    d_lse = f.draw(rng, 1, 4, 3, dtype=np.float64)
    at = {
        "bias": f.draw(rng, 3, 4, dtype=np.float64),
        "sink": f.draw(rng, 4, dtype=np.float64),
        "scale": np.float64(0.6),
        "softcap": np.float64(1.5),
        "temperature": np.array([0.5, 1.0, 1.5, 2.0]),
    }

    def loss(**changed):
        x = {**at, **changed}
        capped = x["softcap"] * np.tanh(f.scores(q, k, x["scale"]) / x["softcap"])
        logits = (capped + x["bias"]) / x["temperature"][:, None, None]
        column = np.broadcast_to(x["sink"][None, :, None, None], (1, 4, 3, 1))
        weights = f.softmax(np.concatenate([logits, column], -1))[..., :-1]
        output = f.weigh(weights, v)
        return (output * d_output).sum() + (f.log_sum_exp(logits) * d_lse).sum()

    options = {**at, "temperature": at["temperature"].tolist()}
    found = client.backward(q, k, v, d_output=d_output, d_lse=d_lse, **options)
    numeric = {
        name: f.numeric_gradient(lambda x, name=name: loss(**{name: x}), value)
        for name, value in at.items()
    }
    assert set(found.d_inputs) == {"bias", "sink"}
    expect(found.d_inputs["bias"], numeric["bias"])
    expect(found.d_inputs["sink"], numeric["sink"])
    expect(found.d_scale, numeric["scale"])
    expect(found.d_softcap, numeric["softcap"])
    expect(found.d_temperatures, numeric["temperature"])


def test_gradient_of_an_input_of_the_spec(client, qkv, rng):
    q, k, v = qkv
    d_output = f.draw(rng, 1, 4, 3, 6, dtype=np.float64)
    weight = f.draw(rng, 5, 5, dtype=np.float64)
    spec = pb.AttentionSpec()
    spec.score.bilinear.weight.input = 0
    spec.score.bilinear.scale = 0.3

    def loss(w):
        return (f.weigh(f.softmax(f.scores(q @ w, k, 0.3)), v) * d_output).sum()

    found = client.backward(
        q, k, v, spec=spec, inputs=[weight], d_output=d_output, gradients=["inputs"]
    )
    expect(found.d_inputs["inputs[0]"], f.numeric_gradient(loss, weight))
    assert found.d_q is None and found.d_k is None and found.d_v is None


def test_only_what_was_asked_for(client, qkv):
    q, k, v = qkv
    found = client.backward(q, k, v, d_output=np.ones((1, 4, 3, 6)), gradients="v")
    weights = f.softmax(f.scores(q, k)).sum(2)
    expected = weights.reshape(1, 2, 2, 4).sum(2)[..., None]
    expect(found.d_v, np.broadcast_to(expected, v.shape))
    assert found.d_q is None


def test_without_a_gradient_the_stage_is_named(client, qkv):
    with pytest.raises(InvalidArgumentError, match="hard"):
        client.backward(*qkv, d_output=np.ones((1, 4, 3, 6)), normalizer="hard")
    with pytest.raises(InvalidArgumentError, match="d_output"):
        client.backward(*qkv)
    with pytest.raises(InvalidArgumentError, match="some of q, k, v"):
        client.backward(*qkv, d_output=np.ones((1, 4, 3, 6)), gradients=["w"])

"""A causal decode of several layers, and its outputs by the formula."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import formulas as f
from attn_client import Session

Q_HEADS, KV_HEADS, DIM, V_DIM = 4, 2, 16, 8


class Decode:
    """q, k and v of every token of every layer, GQA with heads of two widths."""

    def __init__(self, rng: np.random.Generator, layers: int = 1, tokens: int = 24):
        self.layers = range(layers)
        self.tokens = tokens
        self.q = [f.draw(rng, 1, Q_HEADS, tokens, DIM) for _ in self.layers]
        self.k = [f.draw(rng, 1, KV_HEADS, tokens, DIM) for _ in self.layers]
        self.v = [f.draw(rng, 1, KV_HEADS, tokens, V_DIM) for _ in self.layers]

    def open(self, addresses: object, **options: object) -> Session:
        return Session(
            addresses,
            layers=len(self.layers),
            q_heads=Q_HEADS,
            kv_heads=KV_HEADS,
            q_dim=DIM,
            v_dim=V_DIM,
            causal=True,
            **options,
        )

    def rows(self, begin: int, end: int, layer: int = 0) -> tuple[npt.NDArray, ...]:
        """q, k and v of some tokens of a layer."""
        return tuple(
            tensor[layer][:, :, begin:end] for tensor in (self.q, self.k, self.v)
        )

    def all_rows(self, begin: int, end: int) -> tuple[list[npt.NDArray], ...]:
        """The same of every layer, in one list for each of q, k and v."""
        by_layer = [self.rows(begin, end, layer) for layer in self.layers]
        return tuple(list(tensors) for tensors in zip(*by_layer))

    def expected(self, begin: int, end: int, layer: int = 0, keep=np.asarray) -> f.F64:
        """Outputs of tokens that see all up to their own; `keep` is what becomes of
        k and v in the cache."""
        q = self.q[layer][:, :, begin:end]
        k, v = keep(self.k[layer][:, :, :end]), keep(self.v[layer][:, :, :end])
        logits = f.exclude(f.scores(q, k), f.bottom_right(end - begin, end))
        return f.weigh(f.softmax(logits), v)

    def check(self, output: npt.NDArray, begin: int, end: int, layer: int = 0) -> None:
        assert output.dtype == np.float32
        expected = self.expected(begin, end, layer)
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)

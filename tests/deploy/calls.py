#!/usr/bin/env python3
"""Calls of the kinds that `attn load` does not make, a few times a second, so that
no panel has nothing to show: calls that take a layer's tensor, NaN, constant
heads, and calls that are refused.

usage: calls.py --layer FILE.npy     write the tensor of the layer
       calls.py ADDRESS LAYER TENSOR call until it is told to end

Needs attn_client on PYTHONPATH.
"""

import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from attn_client import AttentionClient, AttnError, ResourceExhaustedError
from attn_client.v1 import attention_pb2 as pb

HEADS, ROWS, DIM = 4, 32, 16
PAUSE_SECONDS = 0.2
# More than the server has places for, beside those that the load takes.
BURST = 16
# Heads that mix, and one that picks: its logits are so much larger.
HEAD_SCALES = (0.1, 0.3, 1.0, 100.0)
RANDOM = np.random.default_rng(1)


def tensor(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def layer_weight():
    """[Hq, d_q, d_k]: each head's identity, scaled."""
    return np.stack([scale * np.eye(DIM, dtype=np.float32)
                     for scale in HEAD_SCALES])


class Calls:
    def __init__(self, client, layer, name):
        self._client = client
        self._spec = pb.AttentionSpec()
        self._spec.score.bilinear.weight.layer.layer = layer
        self._spec.score.bilinear.weight.layer.tensor = name
        self._q, self._k, self._v = (tensor(1, HEADS, ROWS, DIM) for _ in range(3))
        self._large = tensor(1, 8, 512, 16)

    def of_layer(self):
        self._client.attend(self._q, self._k, self._v, spec=self._spec)

    def with_nan(self):
        q = self._q.copy()
        q[0, 0, 0, 0] = np.nan
        self._client.attend(q, self._k, self._v)

    def of_constant_heads(self):
        q = k = np.ones_like(self._q)
        self._client.attend(q, k, self._v, outputs=("head_statistics",))
        self._client.inspect(q, k, self._v)

    def without_a_score(self):
        spec = pb.AttentionSpec()
        spec.score.SetInParent()
        self._client.attend(self._q, self._k, self._v, spec=spec)

    def beyond_the_memory(self):
        q = tensor(1, 1, 8192, 4)
        self._client.attend(q, q, q, outputs=("weights",))

    def too_many(self, pool):
        """Calls at once, of which some find no place in the server."""
        list(pool.map(self._large_call, range(BURST)))

    def plan(self):
        self._client.plan(self._q, self._k, self._v)

    def _large_call(self, _):
        with contextlib.suppress(ResourceExhaustedError):
            self._client.attend(self._large, self._large, self._large)


def main():
    if sys.argv[1] == "--layer":
        np.save(sys.argv[2], layer_weight())
        return
    address, layer, name = sys.argv[1:]
    with AttentionClient(address) as client, ThreadPoolExecutor(BURST) as pool:
        calls = Calls(client, layer, name)
        answered = (calls.of_layer, calls.with_nan, calls.of_constant_heads,
                    calls.plan)
        refused = (calls.without_a_score, calls.beyond_the_memory)
        while True:
            for call in answered:
                call()
            for call in refused:
                try:
                    call()
                except AttnError:
                    continue
                sys.exit(f"{call.__name__} was not refused")
            calls.too_many(pool)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()

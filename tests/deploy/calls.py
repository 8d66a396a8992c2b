#!/usr/bin/env python3
"""Calls of the kinds that `attn load` does not make, a few times a second, so that
no panel has nothing to show: calls that take a layer's tensor, NaN, constant
heads, sessions, and calls that are refused.

usage: calls.py --layer FILE.npy     write the tensor of the layer
       calls.py ADDRESS LAYER TENSOR call until it is told to end

Needs attn_client on PYTHONPATH.
"""

import contextlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from attn_client import AttentionClient, AttnError, ResourceExhaustedError
from attn_client.v1 import attention_pb2 as pb
from attn_client.v1 import session_pb2, session_pb2_grpc

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


def message(*shape):
    return pb.Tensor(dtype=pb.DATA_TYPE_F32, shape=shape,
                     data=tensor(*shape).tobytes())


class Sessions:
    """One that decodes, and one at a time beside it that is opened and closed."""

    def __init__(self, channel):
        self._stub = session_pb2_grpc.SessionServiceStub(channel)
        self._decoding = self._open()

    def decode(self):
        opened = self._open()
        first = self._step(opened)
        self._stub.Step(first)
        # Its answer may have been lost.
        self._stub.Step(first)
        with contextlib.suppress(grpc.RpcError):
            self._stub.Step(self._step(opened, step=7))
            sys.exit("a step out of order was not refused")
        self._stub.CloseSession(
            session_pb2.CloseSessionRequest(session_id=opened.session_id))

    def begin(self):
        """What stays in the cache while all is asked."""
        self._stub.Step(self._step(self._decoding))

    def _open(self):
        return self._stub.OpenSession(
            session_pb2.OpenSessionRequest(q_heads=HEADS, q_dim=DIM))

    @staticmethod
    def _step(opened, step=0):
        q, k, v = (message(1, HEADS, 1, DIM) for _ in range(3))
        return session_pb2.StepRequest(
            session_id=opened.session_id, epoch=opened.epoch, step=step,
            q=[q], k=[k], v=[v])


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
    with AttentionClient(address) as client, \
            grpc.insecure_channel(address) as channel, \
            ThreadPoolExecutor(BURST) as pool:
        calls = Calls(client, layer, name)
        sessions = Sessions(channel)
        sessions.begin()
        answered = (calls.of_layer, calls.with_nan, calls.of_constant_heads,
                    calls.plan, sessions.decode)
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

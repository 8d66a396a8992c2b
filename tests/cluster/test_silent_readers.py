"""Clients that do not take their answers."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import grpc

from attn_client.v1 import attention_pb2_grpc
from conftest import Cluster
from silent_readers import request
from waiting import until

_READERS = str(pathlib.Path(__file__).parent / "silent_readers.py")
# Of the answers, which are 8 MiB each, when all but their end is unread.
_BEGUN_BYTES = 3_000_000


def test_clients_that_do_not_read_hold_up_no_other(cluster: Cluster) -> None:
    """Their answers wait in connections to the server that nobody else's share."""
    cluster.start_servers(1)
    proxy = cluster.start_haproxy()

    def sent() -> float:
        name = "haproxy_frontend_bytes_out_total"
        return proxy.metrics().total(name, proxy="grpc")

    with grpc.insecure_channel(proxy.target) as channel:
        stub = attention_pb2_grpc.AttentionServiceStub(channel)
        stub.Attend(request(16), timeout=10)
        silent = subprocess.Popen(
            [sys.executable, _READERS, proxy.target, "6"], stdout=subprocess.PIPE
        )
        try:
            assert silent.stdout is not None and silent.stdout.readline()
            until(lambda: sent() > _BEGUN_BYTES, "answers have begun")
            silent.send_signal(signal.SIGSTOP)
            for _ in range(100):
                stub.Attend(request(16), timeout=10)
        finally:
            silent.kill()
            silent.communicate()

"""Asks for large answers by connections of their own: silent_readers.py TARGET COUNT.
Prints a line when all are under way; who stops it then has clients that read nothing."""

from __future__ import annotations

import sys

import grpc

from attn_client.v1 import attention_pb2, attention_pb2_grpc

_QUERIES, _DIM = 32768, 64
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


def request(queries: int) -> attention_pb2.AttendRequest:
    """Over one key, so that the answer is as large as the queries."""

    def rows(count: int) -> attention_pb2.Tensor:
        return attention_pb2.Tensor(
            dtype=attention_pb2.DATA_TYPE_F32,
            shape=[1, 1, count, _DIM],
            data=bytes(4 * count * _DIM),
        )

    return attention_pb2.AttendRequest(
        spec=attention_pb2.AttentionSpec(), q=rows(queries), k=rows(1), v=rows(1)
    )


def main() -> None:
    target, count = sys.argv[1], int(sys.argv[2])
    large = request(_QUERIES)
    channels = [grpc.insecure_channel(target, options=_OPTIONS) for _ in range(count)]
    calls = [
        attention_pb2_grpc.AttentionServiceStub(channel).Attend.future(large, timeout=60)
        for channel in channels
        for _ in range(2)
    ]
    print("under way", flush=True)
    for call in calls:
        call.result()


if __name__ == "__main__":
    main()

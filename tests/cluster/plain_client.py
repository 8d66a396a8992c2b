"""PlainSession: a session by protoc's plain stubs, as any language's client has it."""

from __future__ import annotations

from typing import Any

import grpc

from attn_client.errors import from_rpc_error
from attn_client.v1 import attention_pb2, session_pb2, session_pb2_grpc

_DIM = 2


def _row() -> Any:
    return attention_pb2.Tensor(
        dtype=attention_pb2.DATA_TYPE_F32, shape=[1, 1, 1, _DIM], data=bytes(4 * _DIM)
    )


class PlainSession:
    """For one thread."""

    def __init__(self, channel: Any, **metadata: str) -> None:
        """`metadata` goes with OpenSession: x_attn_session="..." and the like."""
        self._stub = session_pb2_grpc.SessionServiceStub(channel)
        request = session_pb2.OpenSessionRequest(q_heads=1, q_dim=_DIM)
        self._opened = self._stub.OpenSession(
            request, metadata=_headers(metadata), timeout=10
        )
        self._next = 0

    @property
    def id(self) -> str:
        return str(self._opened.session_id)

    @property
    def owner(self) -> str:
        return str(self._opened.owner)

    def step(self, **metadata: str) -> None:
        """Raises AttnError."""
        request = session_pb2.StepRequest(
            session_id=self._opened.session_id,
            epoch=self._opened.epoch,
            step=self._next,
            position=self._next,
            q=[_row()],
            k=[_row()],
            v=[_row()],
        )
        try:
            self._stub.Step(request, metadata=_headers(metadata), timeout=10)
        except grpc.RpcError as error:
            raise from_rpc_error(error, "the proxy") from None
        self._next += 1


def _headers(metadata: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in metadata.items()]

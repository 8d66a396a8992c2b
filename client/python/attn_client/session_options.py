"""The options of a session, and the request that opens it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Mapping, Sequence, TypedDict

import numpy as np
import numpy.typing as npt

from .channel import Security
from .errors import refuse
from .options import build_call, naming
from .tensors import data_type
from .v1 import attention_pb2, session_pb2
from .wire import Buffer

if TYPE_CHECKING:
    from .options import Window

_INPUTS = session_pb2.OpenSessionRequest.DESCRIPTOR.fields_by_name["inputs"].number
_SECURITY = frozenset(field.name for field in fields(Security))


class SessionOptions(TypedDict, total=False):
    """What a session computes, as the options of the same names of CallOptions, and
    how its servers are spoken to, as those of AttentionClient. Causal masks and
    windows are bottom right: token i of a step is the newest that it sees."""

    spec: attention_pb2.AttentionSpec | None
    inputs: Sequence[npt.ArrayLike]
    causal: bool
    window: Window | None
    alibi: bool | Sequence[float]
    scale: float | None
    softcap: float | None
    temperature: float | Sequence[float] | None
    top_k: int | None
    top_p: float | None
    normalizer: str | attention_pb2.Normalizer | None
    sink: npt.ArrayLike | None
    dropout_p: float
    dropout_seed: int
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_server_name: str | None
    token: str | None
    token_file: str | None
    allow_plaintext_token: bool


def split_options(
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], Security]:
    """What is computed, and how servers are spoken to. TypeError for an option
    that there is not."""
    for name in options:
        if name not in SessionOptions.__annotations__:
            raise TypeError(f"Session() got an unexpected keyword argument {name!r}")
    computed = {n: value for n, value in options.items() if n not in _SECURITY}
    spoken = {n: value for n, value in options.items() if n in _SECURITY}
    return computed, Security(**spoken)


def open_request(
    computed: Mapping[str, Any],
    extents: Mapping[str, int | None],
    kv_dtype: npt.DTypeLike,
    idle_timeout: float | None,
) -> tuple[session_pb2.OpenSessionRequest, list[Buffer]]:
    """The request without its inputs, and the inputs behind it."""
    empty = np.empty((0,), np.float32)
    call = build_call(empty, empty, empty, **computed)
    request = session_pb2.OpenSessionRequest(spec=call.spec)
    with naming("kv_dtype", "float32, float16, bfloat16 or int8"):
        request.kv_dtype = data_type("kv_dtype", kv_dtype)
    for name, value in extents.items():
        with naming(name, "a whole number"):
            setattr(request, name, 0 if value is None else value)
    if idle_timeout is not None:
        with naming("idle_timeout", "seconds"):
            if not idle_timeout > 0:
                refuse("idle_timeout", idle_timeout, "seconds, above 0")
            request.idle_timeout_ms = max(1, round(idle_timeout * 1000))
    inputs: list[Buffer] = []
    for tensor in call.inputs:
        inputs += tensor.field(_INPUTS)
    return request, inputs

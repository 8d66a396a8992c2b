"""scaled_dot_product_attention with the signature and meaning of PyTorch's."""

from __future__ import annotations

import math
import os
import secrets
import sys
import threading
from typing import Any, Tuple

import numpy as np

from .client import AttentionClient
from .errors import refuse
from .tensors import Array, is_bfloat16

Shape = Tuple[int, ...]

_default_lock = threading.Lock()
_default_client: AttentionClient | None = None


def default_client() -> AttentionClient:
    """The client of calls that name none: of $ATTN_ADDRESS, or 127.0.0.1:8001."""
    global _default_client
    with _default_lock:
        if _default_client is None:
            address = os.environ.get("ATTN_ADDRESS", "127.0.0.1:8001")
            _default_client = AttentionClient(address)
        return _default_client


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    client: AttentionClient | None = None,
    dropout_seed: int | None = None,
) -> Any:
    """softmax(query key^T * scale + mask) value, computed by a server.

    As torch.nn.functional.scaled_dot_product_attention, also in this:
      * Leading axes broadcast; with none, there is one head.
      * is_causal is aligned top left: query i sees keys 0 to i, also where there
        are more keys than queries. It excludes attn_mask.
      * attn_mask broadcasts to [..., L, S]. bool: True may attend; floats are
        added. Integers are refused.
      * enable_gqa repeats the heads of key and value to those of query; without
        it, heads broadcast as any other axis.
      * scale is 1 / sqrt(E) unless given; dropout_p drops whenever it is not 0.

    What differs: a row that sees no key gives 0 (so does PyTorch from 2.5 on;
    before, NaN). Which weights dropout drops follows from dropout_seed, which is
    drawn where it is not given, and not from torch's generator. Gradients do not
    flow: a tensor that requires them is refused (AttentionClient.backward).

    query: [..., L, E]; key: [..., S, E]; value: [..., S, Ev], numpy arrays or CPU
    tensors of torch, of one dtype: float32, float16, bfloat16 or float64.
    client: whom to ask; None: default_client().

    Returns [..., L, Ev] of query's dtype and kind. AttnError if it fails.
    """
    client = default_client() if client is None else client
    q, k, v = (
        _array(name, tensor)
        for name, tensor in (("query", query), ("key", key), ("value", value))
    )
    _check_types(q, k, v)
    k_lead, v_lead = k.shape[:-2], v.shape[:-2]
    if enable_gqa:
        k, v = _group_heads(q, k, v)
        k_lead = (*k.shape[:-3], q.shape[-3])
        v_lead = (*v.shape[:-3], q.shape[-3])
    attended = _broadcast("query and key", q.shape[:-2], k_lead)
    lead = _broadcast("key and value", attended, v_lead)
    options: dict[str, Any] = {"scale": scale, **_dropout(dropout_p, dropout_seed)}
    if is_causal:
        if attn_mask is not None:
            refuse("attn_mask", "is_causal too", "one of the two")
        options.update(causal=True, alignment="top_left")
    if attn_mask is not None:
        mask = _mask(_array("attn_mask", attn_mask), attended, q, k)
        options["mask" if mask.dtype == np.bool_ else "bias"] = _fold(mask, lead)
    grouped = enable_gqa or _heads(k) == _heads(v) == 1
    output = _attend(client, (q, k, v), lead, grouped, options)
    return _as_kind_of(query, output)


def _dropout(p: float, seed: int | None) -> dict[str, Any]:
    if p == 0:
        return {}
    return {
        "dropout_p": p,
        "dropout_seed": secrets.randbits(64) if seed is None else seed,
    }


def _attend(
    client: AttentionClient,
    qkv: tuple[Array, Array, Array],
    lead: Shape,
    grouped: bool,
    options: dict[str, Any],
) -> Array:
    """[*lead, L, Ev]. `grouped`: the server has heads of q share those of k and v,
    which differ in number; otherwise all have those of `lead`."""
    q, k, v = qkv
    shape = (*lead, q.shape[-2], v.shape[-1])
    if 0 in lead:
        return np.empty(shape, q.dtype)
    heads = lead[-1] if lead else 1
    kv_heads = _heads(k) if grouped else heads
    output = client.attend(
        _spread(q, lead, heads),
        _spread(k, lead, kv_heads),
        _spread(v, lead, kv_heads),
        **options,
    ).output
    assert output is not None
    return output.reshape(shape)


# ------------------------------------------------------------------- torch


def _torch_of(tensor: Any) -> Any:
    """The module torch if the tensor is one of its; it is never imported here."""
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(tensor, torch.Tensor)
    return torch if is_tensor else None


def _array(name: str, tensor: Any) -> Array:
    """A tensor of torch as an array over its memory, BF16 as uint16."""
    torch = _torch_of(tensor)
    if torch is None:
        return np.asarray(tensor)
    if tensor.requires_grad:
        refuse(name, "a tensor that requires gradients", "a detached one")
    if tensor.device.type != "cpu":
        refuse(name, f"a tensor on {tensor.device}", "one on the CPU: tensor.cpu()")
    if tensor.dtype == torch.bfloat16:
        bits: Array = tensor.contiguous().view(torch.int16).numpy()
        return bits.view(np.uint16)
    return np.asarray(tensor.numpy())


def _as_kind_of(query: Any, output: Array) -> Any:
    torch = _torch_of(query)
    if torch is None:
        return output
    if query.dtype == torch.bfloat16:
        return torch.from_numpy(output.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(output)


# ------------------------------------------------------------------ shapes


def _check_types(q: Array, k: Array, v: Array) -> None:
    for name, array in (("query", q), ("key", k), ("value", v)):
        if array.ndim < 2:
            refuse(name, f"{array.ndim} axes", "2 or more: [..., length, features]")
        if array.dtype != q.dtype:
            refuse(name, f"dtype {array.dtype}", f"{q.dtype}, as query")


def _broadcast(names: str, first: Shape, second: Shape) -> Shape:
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        refuse(names, f"leading axes {first} and {second}", "axes that broadcast")


def _heads(array: Array) -> int:
    return array.shape[-3] if array.ndim > 2 else 1


def _group_heads(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """key and value with one number of heads, which divides that of query."""
    for name, array in (("query", q), ("key", k), ("value", v)):
        if array.ndim < 3:
            refuse(name, f"{array.ndim} axes", "3 or more with enable_gqa")
    heads = _heads(q)
    for name, array in (("key", k), ("value", v)):
        if _heads(array) == 0 or heads % _heads(array) != 0:
            refuse(name, f"{_heads(array)} heads", f"a divisor of query's {heads}")
    if _heads(k) == _heads(v):
        return k, v
    # The server groups keys and values alike.
    return (
        np.repeat(k, heads // _heads(k), axis=-3),
        np.repeat(v, heads // _heads(v), axis=-3),
    )


def _spread(array: Array, lead: Shape, heads: int) -> Array:
    """[B, heads, length, features]; a copy only where batch axes broadcast."""
    rows = array.shape[-2:]
    spread = np.broadcast_to(array, (*lead[:-1], heads, *rows))
    return spread.reshape(math.prod(lead[:-1]), heads, *rows)


def _mask(mask: Array, attended: Shape, q: Array, k: Array) -> Array:
    """The mask, checked."""
    is_float = mask.dtype.kind == "f" or mask.dtype == np.uint16
    if mask.dtype != np.bool_ and not is_float and not is_bfloat16(mask.dtype):
        refuse("attn_mask", f"dtype {mask.dtype}", "bool, or floats to add")
    scores = (*attended, q.shape[-2], k.shape[-2])
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        refuse("attn_mask", f"shape {mask.shape}", f"one that broadcasts to {scores}")
    return mask


def _fold(mask: Array, lead: Shape) -> Array:
    """[B or 1, Hq or 1, L or 1, S or 1] of a mask that broadcasts to the scores."""
    axes = max(len(lead), 1) + 2
    mask = mask.reshape((1,) * (axes - mask.ndim) + mask.shape)
    batch, rest = mask.shape[:-3], mask.shape[-3:]
    if all(extent == 1 for extent in batch):
        return mask.reshape(1, *rest)
    spread = np.broadcast_to(mask, (*lead[:-1], *rest))
    return spread.reshape(math.prod(lead[:-1]), *rest)

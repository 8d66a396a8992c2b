"""Attention by its formulas, in float64; shares nothing with the client."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def draw(rng: np.random.Generator, *shape: int, dtype: object = np.float32) -> F64:
    return rng.standard_normal(shape).astype(dtype)


def by_query_head(kv: npt.ArrayLike, heads: int) -> F64:
    """[B, Hq, S, D] of k or v: query head h reads KV head h // (Hq / Hkv)."""
    wide = np.asarray(kv, np.float64)
    return np.repeat(wide, heads // wide.shape[1], axis=1)


def scores(q: npt.ArrayLike, k: npt.ArrayLike, scale: float | None = None) -> F64:
    """scale * <q, k>, [B, Hq, Sq, Sk]."""
    wide = np.asarray(q, np.float64)
    keys = by_query_head(k, wide.shape[1])
    factor = wide.shape[-1] ** -0.5 if scale is None else scale
    return factor * np.einsum("bhid,bhjd->bhij", wide, keys)


def top_left(rows: int, keys: int) -> npt.NDArray[np.bool_]:
    """Query i may attend keys j <= i."""
    return np.arange(keys)[None, :] <= np.arange(rows)[:, None]


def bottom_right(rows: int, keys: int) -> npt.NDArray[np.bool_]:
    """Query i may attend keys j <= i + keys - rows."""
    return np.arange(keys)[None, :] <= np.arange(rows)[:, None] + keys - rows


def exclude(logits: F64, allowed: npt.ArrayLike) -> F64:
    return np.where(allowed, logits, -np.inf)


def log_sum_exp(logits: F64) -> F64:
    """Over the last axis; -inf for a row of -inf."""
    peak = logits.max(-1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logits - peak).sum(-1)) + peak[..., 0]


def softmax(logits: F64) -> F64:
    """Over the last axis; 0 for a row of -inf."""
    lse = log_sum_exp(logits)[..., None]
    return np.where(np.isfinite(lse), np.exp(logits - np.nan_to_num(lse)), 0.0)


def weigh(weights: F64, v: npt.ArrayLike) -> F64:
    """weights * v, [B, Hq, Sq, d_v]."""
    return weights @ by_query_head(v, weights.shape[1])


def numeric_gradient(loss, array: npt.ArrayLike, step: float = 1e-5) -> F64:
    """Of loss(array) with respect to each element, by central differences."""
    at = np.array(array, np.float64)
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        kept = at[index]
        at[index] = kept + step
        above = loss(at)
        at[index] = kept - step
        gradient[index] = (above - loss(at)) / (2 * step)
        at[index] = kept
    return gradient

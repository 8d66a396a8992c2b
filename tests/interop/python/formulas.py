"""Attention by its formula, in float64."""

import numpy as np


def attention(q, k, v, allowed=True):
    """softmax(<q, k> / sqrt(d) where allowed) v, [B, H, S, D]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    logits = np.where(allowed, q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v

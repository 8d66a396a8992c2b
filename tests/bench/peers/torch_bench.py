#!/usr/bin/env python3
"""PyTorch's scaled_dot_product_attention, flash backend, on the CPU.

usage: torch_bench.py --threads N --dtype f32 [--only a,b] [--tag mkl]

Variants that an expert would write are peers of their own: `fold` folds the
query heads of a group into the rows (decoding), `expand` repeats K and V
beforehand, untimed; `loop` calls once for each sequence, without padding.
`autograd` is forward and backward, as our backward call starts from q, k and v
too; `backward-only` has the forward pass behind it, and is no peer for that.
"""

import argparse

import shapes
import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
MODES = {"none", "memory", "causal", "window", "pad", "ragged", "bias",
         "backward"}


def inputs_of(shape, dtype):
    def draw(heads, rows):
        return torch.randn(shape.batch, heads, rows, shape.dim, dtype=dtype)
    return (draw(shape.q_heads, shape.q_length),
            draw(shape.kv_heads, shape.kv_length),
            draw(shape.kv_heads, shape.kv_length))


def mask_of(shape, dtype):
    if shape.mode == "bias":
        return torch.randn(shape.batch, shape.q_heads, shape.q_length,
                           shape.kv_length, dtype=dtype)
    if shape.mode in ("pad", "ragged"):
        lengths = torch.tensor(shape.lengths())
        return (torch.arange(shape.kv_length) < lengths[:, None])[:, None, None]
    if shape.mode == "window":
        back = torch.arange(shape.q_length)[:, None] - \
            torch.arange(shape.kv_length)
        return (back >= 0) & (back < shapes.WINDOW)
    return None


def grouped_variants(shape, q, k, v):
    group = shape.q_heads // shape.kv_heads
    if shape.q_length == 1:
        folded = q.view(shape.batch, shape.kv_heads, group, shape.dim)
        return {"flash-fold": lambda: functional.scaled_dot_product_attention(
            folded, k, v)}
    expanded = [x.repeat_interleave(group, 1) for x in (k, v)]
    return {"flash-expand": lambda: functional.scaled_dot_product_attention(
        q, *expanded, is_causal=shape.mode == "causal")}


def loop_over_sequences(shape, q, k, v):
    parts = [[x[b:b + 1, :, :length] for x in (q, k, v)]
             for b, length in enumerate(shape.lengths())]
    return [functional.scaled_dot_product_attention(*part) for part in parts]


def backward_variants(q, k, v):
    cotangent = torch.randn_like(q)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    kept = functional.scaled_dot_product_attention(*leaves)

    def autograd():
        out = functional.scaled_dot_product_attention(*leaves)
        return torch.autograd.grad(out, leaves, cotangent)

    def backward_only():
        return torch.autograd.grad(kept, leaves, cotangent, retain_graph=True)
    return {"autograd": autograd, "backward-only": backward_only}


def variants_of(shape, dtype):
    q, k, v = inputs_of(shape, dtype)
    if shape.mode == "backward":
        return backward_variants(q, k, v)
    arguments = {"attn_mask": mask_of(shape, dtype),
                 "is_causal": shape.mode == "causal"}
    if shape.q_heads != shape.kv_heads:
        arguments["enable_gqa"] = True
    variants = {"flash": lambda: functional.scaled_dot_product_attention(
        q, k, v, **arguments)}
    if shape.q_heads != shape.kv_heads:
        variants.update(grouped_variants(shape, q, k, v))
    if shape.mode in ("pad", "ragged"):
        variants["flash-loop"] = lambda: loop_over_sequences(shape, q, k, v)
    return variants


def measure(shape, options):
    version = torch.__version__.split("+", maxsplit=1)[0]
    torch.set_grad_enabled(shape.mode == "backward")
    for name, call in variants_of(shape, DTYPES[options.dtype]).items():
        try:
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                times = shapes.time_calls(call, options.budget)
        except RuntimeError as error:
            print(f"# torch {name} {shape.name}: {error}".splitlines()[0])
            continue
        shapes.report(f"torch{version}{options.tag}-{name}", shape,
                      options.dtype, options.threads, times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--tag", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    for shape in shapes.chosen(options.only, options.dtype, MODES):
        measure(shape, options)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""ONNX Runtime's attention operators on the CPU, F32.

usage: ort_bench.py --threads N [--operator mha|gqa|onnx] [--only a,b]

mha:  com.microsoft MultiHeadAttention
gqa:  com.microsoft GroupQueryAttention, whose new rows go into a buffer of past
      and present keys (input and output are bound to the same memory)
onnx: Attention of opset 23
"""

import argparse

import numpy as np
import onnxruntime
import shapes
from onnx import TensorProto, helper

MODES = {"none", "causal", "window", "pad", "ragged", "bias"}
TYPES = {np.dtype("float32"): TensorProto.FLOAT,
         np.dtype("int32"): TensorProto.INT32,
         np.dtype("bool"): TensorProto.BOOL}


class Unsupported(Exception):
    """The operator does not compute the shape."""


def draw(*shape):
    return np.random.default_rng(len(shape)).standard_normal(
        shape, dtype=np.float32)


def by_rows(x):
    """[B, H, S, d] as [B, S, H d]."""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(
        x.shape[0], x.shape[2], -1)


def visible(shape):
    """[B, Sk]: keys within the lengths."""
    return np.arange(shape.kv_length) < np.array(shape.lengths())[:, None]


def window(shape):
    back = np.arange(shape.q_length)[:, None] - np.arange(shape.kv_length)
    return (back >= 0) & (back < shapes.WINDOW)


def mha(shape, q, k, v):
    if shape.q_heads != shape.kv_heads or shape.mode == "window":
        raise Unsupported
    feeds = {"q": by_rows(q), "k": by_rows(k), "v": by_rows(v)}
    names = ["q", "k", "v"]
    if shape.mode in ("pad", "ragged"):
        feeds["lengths"] = visible(shape).astype(np.int32)
        names += ["", "lengths"]
    if shape.mode == "bias":
        feeds["bias"] = draw(shape.batch, shape.q_heads, shape.q_length,
                             shape.kv_length)
        names += ["", "", "bias"]
    node = helper.make_node(
        "MultiHeadAttention", names, ["out"], domain="com.microsoft",
        num_heads=shape.q_heads, unidirectional=int(shape.mode == "causal"))
    return node, feeds, {"out": feeds["q"].shape}


def gqa(shape, q, k, v):
    decoding = shape.q_length == 1
    if shape.mode not in ("causal", "window") and not decoding:
        raise Unsupported
    new_k, new_v = (by_rows(x[:, :, -shape.q_length:]) for x in (k, v))
    feeds = {"q": by_rows(q), "k": new_k, "v": new_v, "past_k": k, "past_v": v,
             "last": np.full(shape.batch, shape.kv_length - 1, np.int32),
             "total": np.array([shape.kv_length], np.int32)}
    local = {"local_window_size": shapes.WINDOW - 1} \
        if shape.mode == "window" else {}
    node = helper.make_node(
        "GroupQueryAttention", list(feeds), ["out", "new_k", "new_v"],
        domain="com.microsoft", num_heads=shape.q_heads,
        kv_num_heads=shape.kv_heads, **local)
    return node, feeds, {"out": feeds["q"].shape, "new_k": k.shape,
                         "new_v": v.shape}


def onnx_attention(shape, q, k, v):
    feeds = {"q": q, "k": k, "v": v}
    if shape.mode in ("pad", "ragged"):
        feeds["mask"] = np.ascontiguousarray(np.broadcast_to(
            visible(shape)[:, None, None],
            (shape.batch, 1, shape.q_length, shape.kv_length)))
    if shape.mode == "window":
        feeds["mask"] = window(shape)
    if shape.mode == "bias":
        feeds["mask"] = draw(shape.batch, shape.q_heads, shape.q_length,
                             shape.kv_length)
    node = helper.make_node("Attention", list(feeds), ["out"],
                            is_causal=int(shape.mode == "causal"))
    return node, feeds, {"out": q.shape}


OPERATORS = {"mha": mha, "gqa": gqa, "onnx": onnx_attention}


def session_of(node, feeds, results, threads):
    inputs = [helper.make_tensor_value_info(name, TYPES[x.dtype], x.shape)
              for name, x in feeds.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
               for name, dims in results.items()]
    model = helper.make_model(
        helper.make_graph([node], "attention", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 23),
                       helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def bind(session, feeds, results):
    """Inputs and outputs in memory of their own; also the output."""
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x)
              for name, x in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    out = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        results["out"], np.float32)
    binding.bind_ortvalue_output("out", out)
    for name in results:
        if name != "out":
            binding.bind_ortvalue_output(
                name, values[name.replace("new", "past")])
    return binding, out


def error_of(shape, q, k, v, feeds, out):
    """Difference from the formula on the first head, but for windows."""
    rows = out.numpy().astype(np.float64)
    if rows.ndim == 3:
        rows = rows.reshape(shape.batch, shape.q_length, shape.q_heads,
                            shape.dim).transpose(0, 2, 1, 3)
    q, k, v = (x[0, 0].astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / np.sqrt(shape.dim)
    if shape.mode == "causal":
        scores = np.where(np.tri(*scores.shape), scores, -np.inf)
    elif shape.mode == "window":
        scores = np.where(window(shape), scores, -np.inf)
    elif shape.mode in ("pad", "ragged"):
        scores[:, shape.lengths()[0]:] = -np.inf
    elif shape.mode == "bias":
        scores += feeds.get("mask", feeds.get("bias"))[0, 0]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.abs(rows[0, 0] - weights @ v).max()


def measure(shape, options):
    q = draw(shape.batch, shape.q_heads, shape.q_length, shape.dim)
    k = draw(shape.batch, shape.kv_heads, shape.kv_length, shape.dim)
    v = k[:, :, ::-1].copy()
    node, feeds, results = OPERATORS[options.operator](shape, q, k, v)
    session = session_of(node, feeds, results, options.threads)
    binding, out = bind(session, feeds, results)
    times = shapes.time_calls(lambda: session.run_with_iobinding(binding),
                              options.budget)
    shapes.report(f"ort{onnxruntime.__version__}-{options.operator}", shape,
                  "f32", options.threads, times,
                  error_of(shape, q, k, v, feeds, out))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--operator", default="mha", choices=OPERATORS)
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=0.5)
    options = parser.parse_args()
    for shape in shapes.chosen(options.only, "f32", MODES):
        try:
            measure(shape, options)
        except Unsupported:
            continue
        # Each build of the library has exceptions of its own.
        except Exception as error:  # pylint: disable=broad-except
            print(f"# ort {options.operator} {shape.name}: {error}"
                  .splitlines()[0])


if __name__ == "__main__":
    main()

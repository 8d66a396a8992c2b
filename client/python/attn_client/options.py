"""The options of a call, and the request that they make."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Iterator,
    Mapping,
    Sequence,
    Tuple,
    TypedDict,
    Union,
)

import grpc
import numpy as np
import numpy.typing as npt

from .errors import AttnError, InvalidArgumentError, refuse
from .tensors import Array, WireTensor, is_bfloat16, to_array, to_wire
from .v1 import attention_pb2

if TYPE_CHECKING:
    from typing import Literal

    Alignment = Literal["top_left", "bottom_right"]
    Layout = Literal["bhsd", "bshd"]
    Priority = Literal["high", "normal", "low"]

Window = Tuple[Union[int, None], Union[int, None]]

# Of the request messages, in which they have the same numbers.
_FIELDS = {
    name: attention_pb2.AttendRequest.DESCRIPTOR.fields_by_name[name].number
    for name in ("q", "k", "v", "inputs")
}


class CallOptions(TypedDict, total=False):
    """What attend(), backward(), inspect() and plan() have in common.

    Shapes: B batch, Hq query heads, Sq queries, Sk keys. What has no option here
    is reached by `spec`, which has every stage of the schema.
    """

    spec: attention_pb2.AttentionSpec | None
    """The whole pipeline, as the schema has it; the options below are added to a
    copy of it, and one that it has already is refused."""
    inputs: Sequence[npt.ArrayLike]
    """Tensors that `spec` points to by index."""
    causal: bool
    """Keys up to the query's own position; see `alignment`."""
    window: Window | None
    """(left, right): inclusive distances around the position, None unbounded."""
    alignment: Alignment | None
    """Where the diagonal of causal and window lies: "top_left" puts query i at
    key i, "bottom_right" at key i + Sk - Sq. Needed where Sq and Sk differ."""
    mask: npt.ArrayLike | None
    """bool, broadcasts to [B, Hq, Sq, Sk]; True may attend."""
    bias: npt.ArrayLike | None
    """Floats, broadcast to [B, Hq, Sq, Sk], added to the logits; -inf excludes."""
    alibi: bool | Sequence[float]
    """-slope * distance: the published slopes, or one for each query head."""
    scale: float | None
    """Multiplies the scores; None: 1 / sqrt(d_k)."""
    softcap: float | None
    """logits = softcap * tanh(logits / softcap); > 0."""
    temperature: float | Sequence[float] | None
    """Divides the final logits; > 0; one, or one for each query head."""
    top_k: int | None
    """Keep the k largest logits of a row."""
    top_p: float | None
    """Keep the fewest keys whose softmax weights sum to p."""
    normalizer: str | attention_pb2.Normalizer | None
    """"softmax", "softmax_plus", "sparsemax", "entmax" (alpha 1.5), "sigmoid",
    "relu", "divisive", "hard", "identity"; or a message, for its parameters."""
    sink: npt.ArrayLike | None
    """Learned logits in softmax's sum, [Hq] or [Hq, n]."""
    dropout_p: float
    """Drops weights, and divides the others by 1 - p."""
    dropout_seed: int
    """The same seed drops the same weights, on any machine."""
    q_lengths: Sequence[int] | None
    """Valid queries of each batch entry, [B]; rows beyond give 0."""
    kv_lengths: Sequence[int] | None
    """Valid keys of each batch entry, [B]; keys beyond are never read."""
    q_offsets: Sequence[int] | None
    """Ragged: cumulative lengths [B + 1]; q is then [total, Hq, d_k]."""
    kv_offsets: Sequence[int] | None
    """The same of k and v, [total, Hkv, d]."""
    layout: Layout
    """Axes of q, k, v and of the output: "bhsd" or "bshd"."""
    priority: Priority
    """Which of the calls that wait goes first."""
    request_id: str
    """Stands in the server's log and in the report."""


@dataclass
class Call:
    """A call as messages: small fields, and tensors beside them."""

    spec: attention_pb2.AttentionSpec
    # Fields of the request messages, by their names.
    fields: dict[str, Any]
    q: WireTensor
    k: WireTensor
    # Not sent where the spec makes v of k.
    v: WireTensor | None
    inputs: list[WireTensor]
    # How each of `inputs` is called in errors and gradients.
    input_names: list[str]
    # What BF16 comes back as.
    bfloat16: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.uint16))

    def tensors(self) -> list[tuple[int, WireTensor]]:
        """Field number in the request, and tensor, in the order of the wire."""
        named = [("q", self.q), ("k", self.k)]
        if self.v is not None:
            named.append(("v", self.v))
        named += [("inputs", tensor) for tensor in self.inputs]
        return [(_FIELDS[name], tensor) for name, tensor in named]

    def fill(self, request: Any) -> None:
        """Sets the small fields of a request that has fields of their names."""
        request.spec.CopyFrom(self.spec)
        known = request.DESCRIPTOR.fields_by_name
        for name, value in self.fields.items():
            if name not in known:
                continue
            if isinstance(value, list):
                getattr(request, name).extend(value)
            else:
                setattr(request, name, value)


class _Builder:
    """Adds options to a spec."""

    def __init__(self, spec: attention_pb2.AttentionSpec | None) -> None:
        self.spec = attention_pb2.AttentionSpec()
        if spec is not None:
            self.spec.CopyFrom(spec)
        self.inputs: list[WireTensor] = []
        self.names: list[str] = []

    def add_input(self, name: str, value: npt.ArrayLike) -> int:
        self.inputs.append(to_wire(name, value))
        self.names.append(name)
        return len(self.inputs) - 1

    def refuse_twice(self, option: str, field_name: str) -> None:
        if self.spec.HasField(field_name):
            refuse(option, f"a spec that has {field_name} too", "one of the two")

    def add_positions(
        self, causal: bool, window: Window | None, alignment: str | None
    ) -> None:
        names = {None: 0, "top_left": 1, "bottom_right": 2}
        if alignment not in names:
            refuse("alignment", repr(alignment), '"top_left" or "bottom_right"')
        if alignment is not None and not causal and window is None:
            refuse("alignment", repr(alignment), "causal or window beside it")
        if causal:
            self.spec.masks.add().causal.alignment = names[alignment]
        if window is not None:
            try:
                left, right = window
            except (TypeError, ValueError):
                refuse("window", repr(window), "(left, right), None unbounded")
            mask = self.spec.masks.add().window
            mask.alignment = names[alignment]
            if left is not None:
                mask.left = left
            if right is not None:
                mask.right = right

    def add_scores(
        self,
        scale: float | None,
        softcap: float | None,
        bias: npt.ArrayLike | None,
        alibi: bool | Sequence[float],
    ) -> None:
        if scale is not None:
            self.refuse_twice("scale", "score")
            self.spec.score.dot.scale = scale
        if softcap is not None:
            self.refuse_twice("softcap", "softcap")
            self.spec.softcap = softcap
        if bias is not None:
            array = to_array("bias", bias)
            if array.dtype.kind == "b":
                refuse("bias", "dtype bool", "floats; a bool array is a mask")
            index = self.add_input("bias", array)
            self.spec.biases.add().dense.tensor.input = index
        if alibi is not False:
            slopes = [] if alibi is True else [float(slope) for slope in alibi]
            self.spec.biases.add().alibi.slopes.extend(slopes)

    def add_mask(self, mask: npt.ArrayLike | None) -> None:
        if mask is None:
            return
        array = np.asarray(mask)
        if array.dtype != np.bool_:
            refuse("mask", f"dtype {array.dtype}", "bool; floats to add are a bias")
        index = self.add_input("mask", array)
        self.spec.masks.add().dense.tensor.input = index

    def add_rows(
        self,
        temperature: float | Sequence[float] | None,
        top_k: int | None,
        top_p: float | None,
    ) -> None:
        if temperature is not None:
            if self.spec.temperatures:
                refuse("temperature", "a spec that has temperatures", "one of the two")
            values = np.atleast_1d(np.asarray(temperature, np.float64))
            self.spec.temperatures.extend(values.tolist())
        if top_k is not None:
            self.spec.sparsifiers.add().top_k.k = top_k
        if top_p is not None:
            self.spec.sparsifiers.add().top_p.p = top_p

    def add_normalizer(
        self,
        normalizer: str | attention_pb2.Normalizer | None,
        sink: npt.ArrayLike | None,
    ) -> None:
        if normalizer is not None:
            self.refuse_twice("normalizer", "normalizer")
            if isinstance(normalizer, str):
                members = attention_pb2.Normalizer.DESCRIPTOR.fields_by_name
                if normalizer not in members:
                    refuse("normalizer", repr(normalizer), " or ".join(members))
                getattr(self.spec.normalizer, normalizer).SetInParent()
            else:
                self.spec.normalizer.CopyFrom(normalizer)
        if sink is not None:
            kind = self.spec.normalizer.WhichOneof("kind") or "softmax"
            if kind != "softmax":
                refuse("sink", f"the normalizer {kind}", "softmax")
            if self.spec.normalizer.softmax.HasField("sink"):
                refuse("sink", "a spec that has a sink too", "one of the two")
            index = self.add_input("sink", sink)
            self.spec.normalizer.softmax.sink.input = index

    def add_dropout(self, p: float, seed: int) -> None:
        if p != 0:
            self.refuse_twice("dropout_p", "dropout")
            self.spec.dropout.p = p
            self.spec.dropout.seed = seed


LAYOUTS = {
    "bhsd": attention_pb2.TENSOR_LAYOUT_BHSD,
    "bshd": attention_pb2.TENSOR_LAYOUT_BSHD,
}
PRIORITIES = {"high": 1, "normal": 2, "low": 3}


def build_call(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike | None,
    *,
    spec: attention_pb2.AttentionSpec | None = None,
    inputs: Sequence[npt.ArrayLike] = (),
    causal: bool = False,
    window: Window | None = None,
    alignment: Alignment | None = None,
    mask: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    alibi: bool | Sequence[float] = False,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float | Sequence[float] | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    normalizer: str | attention_pb2.Normalizer | None = None,
    sink: npt.ArrayLike | None = None,
    dropout_p: float = 0.0,
    dropout_seed: int = 0,
    q_lengths: Sequence[int] | None = None,
    kv_lengths: Sequence[int] | None = None,
    q_offsets: Sequence[int] | None = None,
    kv_offsets: Sequence[int] | None = None,
    layout: Layout = "bhsd",
    priority: Priority = "normal",
    request_id: str = "",
) -> Call:
    """The call that the options describe; see CallOptions for each.

    q, k, v: [B, Hq, Sq, d_k], [B, Hkv, Sk, d_k], [B, Hkv, Sk, d_v]. A contiguous
    array is not copied. InvalidArgumentError names the option that cannot be.
    """
    with naming("options", "values of the types of CallOptions"):
        builder = _Builder(spec)
        for i, tensor in enumerate(inputs):
            builder.add_input(f"inputs[{i}]", tensor)
        builder.add_positions(causal, window, alignment)
        builder.add_scores(scale, softcap, bias, alibi)
        builder.add_mask(mask)
        builder.add_rows(temperature, top_k, top_p)
        builder.add_normalizer(normalizer, sink)
        builder.add_dropout(dropout_p, dropout_seed)
        sequences = {
            "q_lengths": q_lengths,
            "kv_lengths": kv_lengths,
            "q_offsets": q_offsets,
            "kv_offsets": kv_offsets,
        }
        fields = _request_fields(priority, request_id, sequences)
    return _assemble(builder, (q, k, v), layout, fields)


@contextlib.contextmanager
def naming(field_name: str, expected: str) -> Iterator[None]:
    """Turns what protobuf and numpy raise of a value into an InvalidArgumentError."""
    try:
        yield
    except AttnError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{field_name}: expected {expected}: {error}",
            field_name,
        ) from None


def _request_fields(
    priority: str, request_id: str, sequences: Mapping[str, Sequence[int] | None]
) -> dict[str, Any]:
    if priority not in PRIORITIES:
        refuse("priority", repr(priority), '"high", "normal" or "low"')
    fields: dict[str, Any] = {
        "request_id": request_id,
        "priority": PRIORITIES[priority],
    }
    for name, values in sequences.items():
        if values is not None:
            fields[name] = [operator.index(value) for value in values]
    return fields


def _assemble(
    builder: _Builder,
    qkv: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike | None],
    layout: str,
    fields: dict[str, Any],
) -> Call:
    if layout not in LAYOUTS:
        refuse("layout", repr(layout), '"bhsd" or "bshd"')
    q, k, v = (
        None if value is None else to_array(name, value)
        for name, value in zip(("q", "k", "v"), qkv)
    )

    def wire(name: str, array: Array | None) -> WireTensor:
        if array is None:
            refuse(name, "None", "an array")
        # Ragged tensors and token rows have three axes, which have one order.
        return to_wire(name, array, LAYOUTS[layout] if array.ndim == 4 else 0)

    return Call(
        spec=builder.spec,
        fields=fields,
        q=wire("q", q),
        k=wire("k", k),
        v=None if v is None else wire("v", v),
        inputs=builder.inputs,
        input_names=builder.names,
        bfloat16=q.dtype
        if q is not None and is_bfloat16(q.dtype)
        else np.dtype(np.uint16),
    )

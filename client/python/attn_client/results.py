"""What comes back: dataclasses of numpy arrays and numbers.

Shapes: B batch, Hq query heads, Sq queries, Sk keys. Arrays are float32 (float64
for float64 calls) unless they say otherwise. What was not asked for is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .tensors import Array


@dataclass(frozen=True)
class Timings:
    """Nanoseconds that the server spent in each phase."""

    receive_ns: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    send_ns: int = 0


@dataclass(frozen=True)
class CallWarning:
    """Something that deserves a look; it never changes a result."""

    kind: str
    message: str
    count: int
    tensor: str


@dataclass(frozen=True)
class Report:
    """How a call was computed."""

    kernel: str
    effective_scale: float
    pipeline: str
    timings: Timings
    fully_masked_rows: int
    nonfinite_q: int
    nonfinite_k: int
    nonfinite_v: int
    nonfinite_outputs: int
    request_id: str
    warnings: tuple[CallWarning, ...]
    batch_calls: int
    """Calls that the server started together with it, itself counted; 0: it was
    computed as it came."""
    ready_calls: int
    """Calls that could have been started then: those, and others that there was
    no room for."""


@dataclass(frozen=True)
class HeadStatistics:
    """Summary of one head over its rows that see a key; entropies in nats."""

    batch: int
    head: int
    rows: int
    empty_rows: int
    mean_entropy: float
    mean_entropy_ratio: float
    mean_peak_weight: float
    max_peak_weight: float
    mean_visible_keys: float
    top_key: int
    top_key_share: float
    saturated_rows: int
    logit_min: float
    logit_max: float
    logit_mean: float
    logit_std: float
    mean_effective_keys: float
    saturated_share: float
    mean_contribution: float
    dead: str
    """"", "COLLAPSED", "UNINFORMATIVE" or "CONSTANT_LOGITS"."""
    dead_reason: str


@dataclass(frozen=True)
class RowStatistics:
    """One value for each query row, [B, Hq, Sq]; top_key and visible_keys int64."""

    entropy: Array
    peak_weight: Array
    top_key: Array
    visible_keys: Array
    entropy_ratio: Array
    effective_keys: Array
    logit_min: Array
    logit_max: Array
    logit_mean: Array
    logit_std: Array
    contribution: Array


@dataclass(frozen=True)
class AttendResult:
    """The outputs that were asked for."""

    report: Report
    output: Array | None = None
    """[B, Hq, Sq, d_v] in the layout and dtype of q."""
    lse: Array | None = None
    """[B, Hq, Sq], natural logarithm; -inf for a row without a visible key."""
    logits: Array | None = None
    """[B, Hq, Sq, Sk] after scale, before softcap, bias and masks."""
    masked_logits: Array | None = None
    """[B, Hq, Sq, Sk], final; -inf where a key is excluded."""
    weights: Array | None = None
    """[B, Hq, Sq, Sk] before dropout."""
    lse_with_sink: Array | None = None
    """[B, Hq, Sq]"""
    dropout_keep: Array | None = None
    """[B, Hq, Sq, Sk] bool."""
    state: Array | None = None
    """[B, Hkv, d_k, d_v] of linear attention."""
    head_output: Array | None = None
    """[B, Hq, Sq, d_v] before an output projection."""
    row_statistics: RowStatistics | None = None
    head_statistics: tuple[HeadStatistics, ...] = ()


@dataclass(frozen=True)
class Gradients:
    """Gradients; those that were not asked for are None or absent."""

    report: Report
    d_q: Array | None = None
    d_k: Array | None = None
    d_v: Array | None = None
    d_inputs: dict[str, Array] = field(default_factory=dict)
    """Of "bias" and "sink", and of "inputs[0]" and so on."""
    d_layers: dict[tuple[str, str], Array] = field(default_factory=dict)
    """Of (layer, tensor), where the spec names tensors of layers."""
    d_scale: float = 0.0
    d_temperatures: tuple[float, ...] = ()
    d_softcap: float = 0.0


@dataclass(frozen=True)
class TemperaturePoint:
    """The call at one temperature."""

    temperature: float
    head_statistics: tuple[HeadStatistics, ...]


@dataclass(frozen=True)
class Inspection:
    """The views that were asked for, [batch, head, query, key] of the window."""

    report: Report
    logits: Array | None = None
    masked_logits: Array | None = None
    weights: Array | None = None
    contribution: Array | None = None
    gradient_weight: Array | None = None
    row_statistics: RowStatistics | None = None
    head_statistics: tuple[HeadStatistics, ...] = ()
    sweep: tuple[TemperaturePoint, ...] = ()


@dataclass(frozen=True)
class KernelVerdict:
    """Whether a kernel supports a call; the reason, if not."""

    kernel: str
    supported: bool
    reason: str


@dataclass(frozen=True)
class Plan:
    """What attend() would do. flops counts multiply and add as two."""

    kernel: str
    verdicts: tuple[KernelVerdict, ...]
    effective_scale: float
    pipeline: str
    flops: float
    tensor_bytes: int
    worker_scratch_bytes: int
    call_scratch_bytes: int
    tile_jobs: int


@dataclass(frozen=True)
class Limits:
    """Bounds on what the server accepts at once."""

    max_message_bytes: int
    max_inflight_bytes: int
    max_concurrent_requests: int
    max_queue_size: int
    default_timeout_ms: int
    max_stream_calls: int


@dataclass(frozen=True)
class ServerInfo:
    """A server: versions, cores, limits, and what it can compute."""

    version: str
    isa: str
    onednn_version: str
    grpc_version: str
    cpu_quota_cores: float
    compute_threads: int
    limits: Limits
    stages: dict[str, tuple[str, ...]]
    """Members of each stage, as the spec names them."""
    kernels: tuple[str, ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class SessionInfo:
    """A session on a server; Session makes one."""

    session_id: str
    epoch: int
    next_step: int
    """Number of the next step."""
    lengths: tuple[int, ...]
    """Tokens of each layer."""
    q_heads: int
    kv_heads: int
    q_dim: int
    k_dim: int
    v_dim: int
    kv_dtype: str
    """How k and v are kept: "F32", "F16", "BF16" or "I8"."""
    max_tokens: int
    """0: as many as the server's bytes hold."""
    idle_timeout_ms: int
    bytes: int
    """Of its blocks in memory, those that forks share too."""
    own_bytes: int
    """Of those that it has alone."""
    idle_ms: int
    age_ms: int
    pipeline: str
    """The stages of its calls in order."""
    spilled_bytes: int
    """Of its file on the server's disk; 0: it is in memory."""

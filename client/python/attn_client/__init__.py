"""A client of attn, attention as a service: numpy in, numpy out.

    from attn_client import AttentionClient

    with AttentionClient("127.0.0.1:8001") as client:
        output = client.attend(q, k, v, causal=True).output

Session keeps keys and values on the server between calls.
scaled_dot_product_attention() is PyTorch's function on a server. attn_client.v1
holds the messages of the schema, for what has no option.
"""

from .client import AttentionClient
from .errors import (
    AttnError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from .options import CallOptions
from .results import (
    AttendResult,
    CallWarning,
    Gradients,
    HeadStatistics,
    Inspection,
    KernelVerdict,
    Limits,
    Plan,
    Report,
    RowStatistics,
    ServerInfo,
    SessionInfo,
    TemperaturePoint,
    Timings,
)
from .sdpa import default_client, scaled_dot_product_attention
from .session import Session
from .session_options import SessionOptions
from .tensors import from_bfloat16, to_bfloat16

__version__ = "0.1.0"

__all__ = [
    "AttendResult",
    "AttentionClient",
    "AttnError",
    "CallOptions",
    "CallWarning",
    "CancelledError",
    "DeadlineExceededError",
    "Gradients",
    "HeadStatistics",
    "Inspection",
    "InvalidArgumentError",
    "KernelVerdict",
    "Limits",
    "NotFoundError",
    "Plan",
    "Report",
    "ResourceExhaustedError",
    "RowStatistics",
    "ServerInfo",
    "Session",
    "SessionInfo",
    "SessionOptions",
    "TemperaturePoint",
    "Timings",
    "UnauthenticatedError",
    "UnavailableError",
    "default_client",
    "from_bfloat16",
    "scaled_dot_product_attention",
    "to_bfloat16",
]

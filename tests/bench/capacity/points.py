"""What is measured: shapes of sessions, and the counts that they cost."""

from dataclasses import dataclass

BLOCK_TOKENS = 64
CHUNK = 512
ELEMENT_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "int8": 1}
# Keys and values of all sessions of a point together: more than caches hold, as
# those of a server that is in use are.
WORKING_SET_BYTES = 64 << 20
# F32: the scale of a row of int8.
SCALE_BYTES = 4


@dataclass(frozen=True)
class Point:
    """One call: a step of one token of `layers` layers of a session."""

    q_heads: int
    kv_heads: int
    dim: int
    tokens: int
    layers: int
    kv_dtype: str
    dtype: str = "bf16"
    held_out: bool = False

    @property
    def name(self) -> str:
        return (f"{self.q_heads}/{self.kv_heads} heads of {self.dim}, "
                f"{self.tokens} tokens, {self.layers} layers, {self.kv_dtype}")

    @property
    def row_bytes(self) -> int:
        """Of k and v of one token and head."""
        scales = 2 * SCALE_BYTES if self.kv_dtype == "int8" else 0
        return 2 * self.dim * ELEMENT_BYTES[self.kv_dtype] + scales

    @property
    def read_elements(self) -> int:
        """Of k and v that a call reads."""
        return self.layers * self.kv_heads * self.tokens * 2 * self.dim

    @property
    def read_bytes(self) -> int:
        return self.layers * self.kv_heads * self.tokens * self.row_bytes

    @property
    def multiply_adds(self) -> int:
        return self.layers * self.q_heads * self.tokens * 2 * self.dim

    @property
    def payload_bytes(self) -> tuple[int, int]:
        """Of the tensors of a call, in and out."""
        row = self.layers * self.dim * ELEMENT_BYTES[self.dtype]
        return ((self.q_heads + 2 * self.kv_heads) * row, self.q_heads * row)

    @property
    def session_bytes(self) -> int:
        blocks = -(-self.tokens // BLOCK_TOKENS)
        return (self.layers * blocks * BLOCK_TOKENS * self.kv_heads *
                self.row_bytes)

    @property
    def sessions(self) -> int:
        return min(256, max(2, -(-WORKING_SET_BYTES // self.session_bytes)))

    @property
    def prefill_steps(self) -> int:
        return self.sessions * -(-self.tokens // CHUNK)

    @property
    def prefill_multiply_adds(self) -> float:
        """Of all first tokens, each of which sees those before it."""
        pairs = self.tokens * (self.tokens + 1) / 2
        return (self.sessions * self.layers * self.q_heads * pairs *
                2 * self.dim)


def step_points() -> list[Point]:
    points = [
        Point(1, 1, 8, 64, 1, "f32"),
        Point(1, 1, 8, 64, 32, "f32"),
        Point(32, 8, 128, 64, 1, "bf16", "f32"),
        Point(32, 8, 128, 64, 32, "bf16", "f32"),
        Point(32, 8, 128, 64, 32, "bf16"),
        Point(8, 8, 64, 256, 1, "f32"),
        Point(8, 8, 64, 256, 8, "f32"),
    ]
    for kv_dtype in ELEMENT_BYTES:
        points += [Point(32, 8, 128, 1024, 1, kv_dtype),
                   Point(8, 8, 128, 1024, 1, kv_dtype),
                   Point(8, 8, 128, 4096, 1, kv_dtype)]
    return points + [
        Point(32, 8, 128, 4096, 1, "f32"),
        Point(32, 8, 128, 2048, 4, "bf16", held_out=True),
        Point(16, 4, 64, 512, 8, "f32", held_out=True),
        Point(32, 8, 128, 512, 8, "int8", held_out=True),
        Point(32, 8, 128, 256, 32, "bf16", held_out=True),
        Point(16, 8, 128, 2048, 2, "f16", held_out=True),
        Point(8, 8, 128, 8192, 1, "bf16", held_out=True),
    ]


def bus_points() -> list[Point]:
    """Two threads or more read what is too long for any cache."""
    return [Point(8, 8, 128, 4096, 1, "f32"), Point(8, 8, 128, 4096, 1, "bf16")]


def proxy_points() -> list[Point]:
    """From calls that are next to nothing to megabytes."""
    return [Point(1, 1, 8, 64, 1, "f32"),
            Point(32, 8, 128, 64, 1, "bf16"),
            Point(32, 8, 128, 64, 32, "bf16", "f32"),
            Point(32, 8, 128, 64, 4, "bf16", "f32", held_out=True)]

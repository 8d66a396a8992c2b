"""Session: a sequence whose keys and values a server keeps between calls."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

import numpy.typing as npt

from .calls import Deadline
from .errors import precondition, refuse
from .history import ReplayHistory
from .places import Connections, Places, checked_addresses, quietly
from .requests import checked_timeout
from .results import Report, SessionInfo
from .session_calls import call_small, describe_session
from .session_options import open_request, split_options
from .session_state import SessionState
from .step_loop import StepLoop
from .steps import Layers, Rows, StepCall, step_call
from .v1 import session_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Layout, Priority
    from .session_options import SessionOptions

_MAX_REPLAY_BYTES = 4 << 30


class Session:
    """One sequence, of which a server keeps k and v of every layer, so that a step
    sends its new tokens alone; and this keeps what it takes to make the same
    session elsewhere.

        with Session("127.0.0.1:8001", q_heads=8, q_dim=64, causal=True) as session:
            output = session.step(q, k, v)

    A call finds the session gone when its server does not answer (UNAVAILABLE,
    tried four times within 0.7 s) or does not know it (NOT_FOUND with
    SESSION_NOT_HERE or SESSION_EXPIRED). It then opens another at the next
    address, sends k and v of all tokens again with queries of zeros, and goes on
    with what it was about to do. The outputs are the same as if nothing had
    happened, bit for bit on servers that compute alike. A step whose answer was
    lost is sent again under its number, and is answered as before.

    All other errors are the caller's, as the server gave them: AttnError of a class
    for each status code, the server's name for it in `reason`. A step that failed
    leaves the session as it was. After SESSION_BUSY, DEADLINE_EXCEEDED and INTERNAL
    the server may have it all the same: the same step again is answered as if
    nothing had happened, and before any other call the server's session is brought
    back, by a rollback, or by a replay where that is not enough. If a session that
    is gone cannot be had again, the error has the code and the reason of the loss,
    and its message says why; the next call tries anew.

    A timeout is one for all that a call takes, a replay too. A session that is not
    closed is forgotten by its server when it was idle for too long.

    For one thread at a time; forks are apart from it, and may be used by others.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = "127.0.0.1:8001",
        *,
        q_heads: int,
        q_dim: int,
        layers: int = 1,
        kv_heads: int | None = None,
        k_dim: int | None = None,
        v_dim: int | None = None,
        kv_dtype: npt.DTypeLike = "float32",
        max_tokens: int | None = None,
        idle_timeout: float | None = None,
        through_proxy: bool = False,
        max_replay_bytes: int = _MAX_REPLAY_BYTES,
        patience: float = 10.0,
        timeout: float = 60.0,
        **options: Unpack[SessionOptions],
    ) -> None:
        """Opens it; here each address is asked once. InvalidArgumentError for what
        cannot be meant, else the error of the last address.

        addresses: servers that may have it, or a proxy before them, each
        "host:port" or "unix:/path", or several servers as "dns:///name:port" or
        "ipv4:a:port,b:port", each with an --advertise-address. The first that takes
        it has it; when it is gone, those after it are asked in turn, and that one
        last.
        through_proxy: the owner that a server names is told to the proxy at the
        address, as metadata x-attn-route, and not called by itself.
        q_heads, q_dim: of q, and of what a row of it has.
        layers: 1 to 1024, each with a cache of its own.
        kv_heads: of k and v; q_heads a multiple of it. None: q_heads.
        k_dim, v_dim: of rows of k and v. None: q_dim, and k_dim.
        kv_dtype: how the server keeps k and v: "float32", "float16", "bfloat16", or
        "int8" with a scale for each row.
        max_tokens: most tokens of a layer; None: as many as the server has room for.
        idle_timeout: seconds without a step after which the server may forget it;
        None: the server's, which is also the most.
        max_replay_bytes: of k and v that are kept here to be sent again. With more
        the session ends with its server.
        patience: for so many seconds all addresses are asked again when the session
        is gone and none takes it: a server that was just started may not have been
        seen yet.
        timeout: seconds that a call may take.
        options: see SessionOptions.
        """
        self._timeout = checked_timeout(timeout)
        if max_replay_bytes < 0:
            refuse("max_replay_bytes", max_replay_bytes, "0 or more")
        if layers < 1:
            refuse("layers", layers, "1 or more")
        named = checked_addresses(addresses)
        computed, security = split_options(options)
        extents = {
            "layers": layers,
            "q_heads": q_heads,
            "kv_heads": kv_heads,
            "q_dim": q_dim,
            "k_dim": k_dim,
            "v_dim": v_dim,
            "max_tokens": max_tokens,
        }
        request, inputs = open_request(computed, extents, kv_dtype, idle_timeout)
        connections = Connections(security)
        history = ReplayHistory(layers, max_replay_bytes)
        places = Places(named, connections, request, inputs, through_proxy)
        try:
            place = places.open(history, 0.0, Deadline(self._timeout))
        except BaseException:
            connections.release()
            raise
        self._state = SessionState(places, place, history, patience)

    @classmethod
    def _with(cls, state: SessionState, timeout: float) -> Session:
        session = cls.__new__(cls)
        session._state = state
        session._timeout = timeout
        return session

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """As close(), but a server that does not answer is no error."""
        quietly(self.close)

    @property
    def layers(self) -> int:
        """How many there are."""
        return self._state.history.layers

    def length(self, layer: int = 0) -> int:
        """Tokens of a layer, 0 to layers - 1; of steps that were answered."""
        return self._state.history.length(layer)

    @property
    def address(self) -> str:
        """Where it is now."""
        return self._state.place.channel.address

    @property
    def owner(self) -> str:
        """Its server, if that is behind a proxy and told its name; else empty."""
        return self._state.place.owner

    @property
    def id(self) -> str:
        """What the server there calls it: 32 hexadecimal digits."""
        return self._state.place.session_id

    @property
    def epoch(self) -> int:
        """Counts its rollbacks there."""
        return self._state.place.epoch

    @property
    def moves(self) -> int:
        """How often it went on elsewhere."""
        return self._state.moves

    @property
    def replay_bytes(self) -> int:
        """Of k and v that are kept for a replay; memory that forks share counts for
        each."""
        return self._state.history.bytes

    @property
    def can_replay(self) -> bool:
        """Whether there can be one, which there cannot beyond max_replay_bytes."""
        return self._state.history.complete

    @property
    def report(self) -> Report | None:
        """How the last step that was answered was computed."""
        return self._state.report

    def step(
        self,
        q: Rows,
        k: Rows,
        v: Rows,
        *,
        layers: Layers = 0,
        layout: Layout = "bhsd",
        priority: Priority = "normal",
        request_id: str = "",
        timeout: float | None = None,
    ) -> Any:
        """Appends k and v of n tokens to a layer, and attends with q of the same
        tokens over all that the layer then has. Returns [1, q_heads, n, v_dim] of
        q's dtype.

        q, k, v: [1, q_heads, n, q_dim], [1, kv_heads, n, k_dim],
        [1, kv_heads, n, v_dim]; q of float32, float16 or bfloat16, k and v of
        any float type.
        layers: an index; or some of them, which must have equally many tokens.
        Then q, k and v are sequences of as many arrays, and a list of outputs is
        returned.
        layout: "bshd" swaps heads and tokens, of the output too.

        InvalidArgumentError names what does not fit together;
        ResourceExhaustedError has the reason "SESSION_FULL" beyond max_tokens and
        "KV_MEMORY" where the server has no room.
        """
        state = self._state
        state.check_ready()
        call = step_call(q, k, v, layers, layout, priority, request_id)
        state.check_step(call)
        answer = state.step(call, self._deadline(timeout))
        return answer.for_caller(call)

    def step_layers(
        self,
        rows: Mapping[int, tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]],
        *,
        layout: Layout = "bhsd",
        priority: Priority = "normal",
        request_id: str = "",
        timeout: float | None = None,
    ) -> dict[int, Any]:
        """step() of many layers in one message, by layer: of {layer: (q, k, v)} it
        returns {layer: output}."""
        layers = list(rows)
        q, k, v = ([rows[layer][i] for layer in layers] for i in range(3))
        outputs = self.step(
            q,
            k,
            v,
            layers=layers,
            layout=layout,
            priority=priority,
            request_id=request_id,
            timeout=timeout,
        )
        return dict(zip(layers, outputs))

    def steps(
        self,
        rows: Iterable[tuple[Rows, Rows, Rows]],
        *,
        layers: Layers = 0,
        layout: Layout = "bhsd",
        priority: Priority = "normal",
        ahead: int = 4,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """Many steps over one stream: of each (q, k, v) of `rows` what step()
        returns, in their order. A server or a stream that is gone is survived as by
        step().

        ahead: how many are drawn from `rows`, and sent, before the first of them
        is answered. With 1 a step is drawn when the output before it was taken, so
        that it may depend on it.
        timeout: seconds for each answer.

        The arrays are copied when they are drawn. An error ends the loop; the
        session then has the steps before it. Whoever leaves the loop early waits
        for the steps that were drawn, which the session has, but for those that are
        not answered. Where steps
        are on their way all other calls but close() are FAILED_PRECONDITION.
        """
        if ahead < 1:
            refuse("ahead", ahead, "1 or more")
        seconds = self._timeout if timeout is None else checked_timeout(timeout)
        self._state.check_ready()
        source = iter(rows)

        def draw() -> StepCall | None:
            drawn = next(source, None)
            if drawn is None:
                return None
            q, k, v = drawn
            return step_call(q, k, v, layers, layout, priority, copied=True)

        return StepLoop(self._state, draw, ahead, seconds).run()

    def rollback(self, position: int, *, timeout: float | None = None) -> None:
        """Forgets the tokens from `position` on, in every layer. One that is not
        answered counts: length() is `position`, and the next call has the server
        do it first."""
        self._state.check_ready()
        self._check_position(position)
        self._state.roll_back(position, self._deadline(timeout))

    def fork(
        self, position: int | None = None, *, timeout: float | None = None
    ) -> Session:
        """Another session, on the same server, with the tokens before `position`;
        None: all. Both share the server's memory of them, and this side's, until
        one of them goes its own way. FAILED_PRECONDITION if the server has tokens
        that are not known here, or has let go of what a window needs."""
        state = self._state
        state.check_ready()
        kept = state.history.longest() if position is None else position
        self._check_position(kept)
        deadline = self._deadline(timeout)

        def ask() -> Any:
            place = state.place
            request = session_pb2.ForkRequest(
                session_id=place.session_id, epoch=place.epoch, position=kept
            )
            response = session_pb2.ForkResponse()
            return call_small(place.channel, "Fork", request, response, deadline)

        state.settle(deadline)
        response = state.surviving(ask, deadline)
        history = state.history.share()
        history.truncate(kept)
        place = state.places.place(response, state.place.channel)
        forked = SessionState(state.places.share(), place, history, state.patience)
        fork = Session._with(forked, self._timeout)
        there = list(response.session.lengths)
        here = [fork.length(layer) for layer in range(fork.layers)]
        if there != here:
            quietly(fork.close)
            raise precondition(
                f"the layers of the server's session have {there} tokens that a fork "
                f"would have, and here {here}: somebody else makes steps of it; "
                "rollback() first"
            )
        return fork

    def info(self, *, timeout: float | None = None) -> SessionInfo:
        """What its server says of it. NotFoundError if it is gone: this does not go
        elsewhere."""
        self._state.check_ready()
        place = self._state.place
        deadline = self._deadline(timeout)
        return describe_session(place.channel, place.session_id, deadline)

    def close(self, *, timeout: float | None = None) -> None:
        """Forgets the session here, and on its server if that answers. Every call
        but this is FAILED_PRECONDITION from then on, whatever this raises."""
        state = self._state
        if state.closed:
            return
        deadline = self._deadline(timeout)
        state.closed = True
        state.history = ReplayHistory(self.layers, state.history.max_bytes)
        try:
            state.place.close(deadline)
        finally:
            state.places.release()

    def _check_position(self, position: int) -> None:
        longest = self._state.history.longest()
        if not 0 <= position <= longest:
            refuse("position", position, f"0 to {longest}")

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._timeout if timeout is None else timeout)

"""Server: an attn-server on a host of its own."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time

import grpc

from attn_client.v1 import session_pb2, session_pb2_grpc
from network import Host
from waiting import Metrics, fetch, until

# As it is shipped, but for the wait, which is 5 s: what it is for is seen sooner.
DRAIN_DELAY_SECONDS = 2
_STOP_SECONDS = 60


def binary(name: str) -> str:
    return str(pathlib.Path(os.environ["ATTN_BIN"], name))


class Server:
    """For one thread."""

    def __init__(self, host: Host, folder: pathlib.Path, *flags: str) -> None:
        self.host = host
        self._flags = flags
        self._log = folder / f"{host.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Where it says that it is reached."""
        return f"{self.host.name}:8001"

    @property
    def target(self) -> str:
        """Where it is reached, as a number."""
        return f"{self.host.address}:8001"

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def start(self) -> None:
        """Returns when it serves."""
        assert self._process is None
        with self._log.open("ab") as log:
            self._process = self.host.start(
                binary("attn-server"),
                "--grpc-address=0.0.0.0:8001",
                "--http-address=0.0.0.0:8000",
                "--metrics-address=0.0.0.0:8002",
                f"--advertise-address={self.name}",
                f"--drain-delay={DRAIN_DELAY_SECONDS}s",
                "--log-requests=false",
                *self._flags,
                output=log,
            )
        until(self._is_ready, f"{self.name} serves: {self.log()}")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            fetch(f"http://{self.host.address}:8000/readyz", timeout=1)
        except OSError:
            return False
        return True

    def drain(self) -> None:
        """Asks it to stop, and does not wait."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def await_end(self) -> None:
        assert self._process is not None
        code = self._process.wait(_STOP_SECONDS)
        self._process = None
        assert code == 0, self.log()

    def stop(self) -> None:
        self.drain()
        self.await_end()

    def kill(self) -> None:
        """Ends it with no time to say anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def metrics(self) -> Metrics:
        return Metrics(f"http://{self.host.address}:8002/metrics")

    def calls(self) -> float:
        """Calls of Attend that were answered."""
        return self.metrics().total("attn_requests_total", method="Attend")

    def sessions(self) -> dict[str, int]:
        """Its sessions by their id, and how many tokens each has."""
        with grpc.insecure_channel(self.target) as channel:
            stub = session_pb2_grpc.SessionServiceStub(channel)
            found: dict[str, int] = {}
            request = session_pb2.ListSessionsRequest()
            while True:
                answer = stub.ListSessions(request, timeout=10, wait_for_ready=True)
                for one in answer.sessions:
                    found[one.session_id] = one.lengths[0]
                if not answer.next_page_token:
                    return found
                request.page_token = answer.next_page_token


def await_tokens(servers: list[Server], more: int) -> None:
    """Until the servers' sessions have so many tokens more, all together."""

    def count() -> int:
        return sum(sum(server.sessions().values()) for server in servers)

    enough = count() + more
    until(lambda: count() >= enough, f"{more} tokens more")


def timed_stop(server: Server) -> float:
    """Seconds from the signal to the end."""
    start = time.monotonic()
    server.stop()
    return time.monotonic() - start

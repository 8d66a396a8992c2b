"""Servers and clients for the tests. ATTN_BIN is the folder of attn-server."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time
from typing import Any, Iterator

import numpy as np
import pytest

from attn_client import AttentionClient
from session_proxy import Proxy

# Under the sanitizers a server takes its time.
START_SECONDS = 120
STOP_SECONDS = 120


class Server:
    """An attn-server on a free port, or on the addresses of its flags."""

    def __init__(self, folder: pathlib.Path, *flags: str) -> None:
        self._log = folder / "attn-server.log"
        command = [
            str(pathlib.Path(os.environ["ATTN_BIN"], "attn-server")),
            "--metrics-address=",
            "--http-address=",
            "--drain-delay=0s",
            *flags,
        ]
        if not any(flag.startswith("--grpc-address") for flag in flags):
            command.append("--grpc-address=127.0.0.1:0")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._killed = False
        self.address = self._await_address()

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def _await_address(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            serving = re.search(r"SERVING on ([^,\s]+).*\n", self.log())
            if serving:
                return serving.group(1)
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        self.stop()
        pytest.fail(f"attn-server does not serve: {self.log()}")

    def kill(self) -> None:
        """Ends it with no time to say anything."""
        self._killed = True
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Its exit code; 0 if it was killed before."""
        if self._killed:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """start_server(*flags): one server for the whole run; all end with it."""
    servers: list[Server] = []

    def start(*flags: str) -> Server:
        servers.append(Server(tmp_path_factory.mktemp("server"), *flags))
        return servers[-1]

    yield start
    codes = [server.stop() for server in servers]
    assert codes == [0] * len(codes), "\n".join(server.log() for server in servers)


@pytest.fixture(scope="session")
def server(start_server: Any) -> Server:
    return start_server()


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[AttentionClient]:
    with AttentionClient(server.address) as one:
        yield one


@pytest.fixture
def proxy(server: Server) -> Iterator[Any]:
    """proxy(address): a server of sessions that has another do the work, and fails
    where it is told to; of `server` if none is named."""
    proxies: list[Proxy] = []

    def start(address: str = server.address) -> Proxy:
        proxies.append(Proxy(address))
        return proxies[-1]

    yield start
    for one in proxies:
        one.stop()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170612)

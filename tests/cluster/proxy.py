"""HAProxy and Nginx, each by the configuration that deploy/ ships."""

from __future__ import annotations

import pathlib
import subprocess
from typing import Sequence

import yaml

from network import Host
from waiting import Metrics, until

_DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
_STOP_SECONDS = 30


def _settings(service: str) -> dict[str, str]:
    """The kernel's, that compose.yaml has for the service's network."""
    text = (_DEPLOY / "compose.yaml").read_text("utf-8")
    found = yaml.safe_load(text)["services"][service]["sysctls"]
    return dict(setting.split("=") for setting in found)


class _Proxy:
    """A process on a host that listens on 8001. For one thread."""

    def __init__(self, host: Host, log: pathlib.Path) -> None:
        self.host = host
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> str:
        return f"{self.host.address}:8001"

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def _start(self, *command: str) -> None:
        with self._log.open("ab") as log:
            self._process = self.host.start(*command, output=log)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class HAProxy(_Proxy):
    """deploy/haproxy/haproxy.cfg as it is, on a host as deploy/compose.yaml has it: its
    names are found by the network's name server, as they are by a container engine's."""

    def start(self) -> None:
        for name, value in _settings("haproxy").items():
            self.host.set_kernel(name, value)
        self._start("haproxy", "-db", "-f", str(_DEPLOY / "haproxy" / "haproxy.cfg"))
        until(self._answers, f"haproxy answers: {self.log()}")

    def _answers(self) -> bool:
        assert self.runs(), self.log()
        try:
            self.metrics()
        except OSError:
            return False
        return True

    def metrics(self) -> Metrics:
        return Metrics(f"http://{self.host.address}:8404/metrics")

    def is_up(self, server: str, backend: str = "attn_calls") -> bool:
        """Whether it gives calls to the server, named as in the file."""
        labels = {"proxy": backend, "server": server, "state": "UP"}
        return self.metrics().total("haproxy_server_status", **labels) == 1

    def await_state(
        self, servers: Sequence[str], up: bool, backend: str = "attn_calls"
    ) -> float:
        """Until all are up, or none is; how many seconds that took."""
        word = "up" if up else "down"
        return until(
            lambda: all(self.is_up(name, backend) == up for name in servers),
            f"{', '.join(servers)} {word} in {backend}",
        )

    def attempts(self) -> float:
        """Calls that reached it: each attempt of a client counts."""
        return self.metrics().total("haproxy_frontend_http_requests_total", proxy="grpc")

    def retries(self) -> float:
        """Calls that it has sent to another server by itself."""
        metrics = self.metrics()
        names = ("haproxy_backend_retry_warnings_total",
                 "haproxy_backend_redispatch_warnings_total")  # fmt: skip
        return max(metrics.total(name, proxy="attn_calls") for name in names)


class Nginx(_Proxy):
    """deploy/nginx/nginx.conf as it is. It looks names up once, when it starts."""

    def start(self, folder: pathlib.Path) -> None:
        self._start(
            "nginx", "-e", "stderr", "-p", f"{folder}/",
            "-c", str(_DEPLOY / "nginx" / "nginx.conf"),
            "-g", "daemon off;",
        )  # fmt: skip
        until(self._answers, f"nginx answers: {self.log()}")

    def _answers(self) -> bool:
        assert self.runs(), self.log()
        return "8001" in self.host.run("ss", "-Hltn", "sport", "=", ":8001")

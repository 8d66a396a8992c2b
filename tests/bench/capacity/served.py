"""attn-server, HAProxy and `attn load` as processes, and what they use."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

START_SECONDS = 60
SAMPLE_SECONDS = 0.1


class Child:
    """A process that ends with the object, and a folder for its files."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name) / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, argv: list[str]) -> None:
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def await_text(self, pattern: str) -> str:
        """The first group of `pattern` in the log."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text("utf-8"))
            if found:
                return found.group(1)
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"no {pattern} in: {self.log.read_text('utf-8')}")

    def await_port(self, port: int) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except ConnectionError:
                time.sleep(0.05)
        raise RuntimeError(f"no port {port}: {self.log.read_text('utf-8')}")

    def cpu_seconds(self) -> float:
        """Of all its threads that run."""
        nanos = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                nanos += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
        return nanos / 1e9

    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found.group(1)) * 1024 if found else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()


class AttnServer(Child):
    """One that listens on ports that are free."""

    def __init__(self, folder: Path, threads: int, *flags: str) -> None:
        super().__init__()
        self.start([str(folder / "attn-server"), "--grpc-address=127.0.0.1:0",
                    "--metrics-address=127.0.0.1:0", "--http-address=",
                    "--log-requests=false", "--drain-delay=0s",
                    f"--compute-threads={threads}",
                    f"--max-session-bytes={4 << 30}", *flags])
        self.metrics = self.await_text(r"metrics: (http://\S+)")
        self.address = self.await_text(r"SERVING on ([^, \n]+)")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.idle_bytes = self.resident_bytes()

    def steps(self) -> int:
        """Answered so far."""
        with urllib.request.urlopen(self.metrics, timeout=10) as page:
            text = page.read().decode()
        found = re.findall(
            r'^attn_requests_total\{code="OK",method="Step",[^}]*\} (\S+)$',
            text, re.MULTILINE)
        return int(sum(float(count) for count in found))

    def transported(self) -> tuple[int, int]:
        """Bytes of TCP that its connections have received and sent."""
        text = subprocess.run(
            ["ss", "-tinH", f"sport = :{self.port}"], check=True,
            capture_output=True, text=True).stdout
        return (sum(map(int, re.findall(r"bytes_received:(\d+)", text))),
                sum(map(int, re.findall(r"bytes_sent:(\d+)", text))))


class HaProxy(Child):
    """One thread in front of one server, HTTP/2 on both sides."""

    CONFIG = """\
global
    nbthread 1
    tune.bufsize 65536
    tune.h2.initial-window-size 1048576
defaults
    mode http
    timeout connect 2s
    timeout client 120s
    timeout server 120s
frontend grpc_in
    bind 127.0.0.1:{port} proto h2
    default_backend attn
backend attn
    default-server proto h2
    server s1 {server}
"""

    def __init__(self, server: str, port: int) -> None:
        super().__init__()
        config = Path(self.folder.name) / "haproxy.cfg"
        config.write_text(self.CONFIG.format(port=port, server=server))
        self.start(["haproxy", "-db", "-f", str(config)])
        self.address = f"127.0.0.1:{port}"
        self.await_port(port)


@dataclass
class Sample:
    at: float
    steps: int
    server_cpu: float
    proxy_cpu: float
    resident: int
    received: int
    sent: int


def take_sample(server: AttnServer, proxy: HaProxy | None) -> Sample:
    received, sent = server.transported()
    return Sample(time.monotonic(), server.steps(), server.cpu_seconds(),
                  proxy.cpu_seconds() if proxy else 0.0,
                  server.resident_bytes(), received, sent)


def run_load(attn: Path, address: str, flags: list[str], server: AttnServer,
             proxy: HaProxy | None) -> tuple[list[Sample], dict[str, Any]]:
    """Samples of the server until `attn load` ends, and what that says."""
    samples: list[Sample] = []
    with tempfile.TemporaryFile() as out:
        with subprocess.Popen([str(attn), "--address", address, "--json", "load",
                               "--verify-every", "0", *flags],
                              stdout=out) as load:
            while load.poll() is None:
                samples.append(take_sample(server, proxy))
                time.sleep(SAMPLE_SECONDS)
            if load.returncode > 1:
                raise RuntimeError(f"attn load {flags}: {load.returncode}")
        out.seek(0)
        report: dict[str, Any] = json.loads(out.read())
    if report["errors"]:
        raise RuntimeError(f"attn load: {report['first_errors']}")
    return samples, report


def cores() -> int:
    return len(os.sched_getaffinity(0))

#!/usr/bin/env python3
"""Starts the server with the flags of each pool's container and asks it what the
kubelet would.

usage: serve.py BIN POOL.yaml...

Ports become free ones of the loopback, and files those of a temporary folder; all
other flags are as they are. The last line is "N passed, N failed".
"""

import contextlib
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Iterator

import grpc  # type: ignore[import]

from checks import ADDRESSES, FILE_FLAGS
from manifests import Object, Pool, load

START_SECONDS = 60.0
STOP_SECONDS = 60.0
NAMES = {"POD_NAME": "attn-sessions-0", "POD_NAMESPACE": "attn"}


def field(number: int, text: str) -> bytes:
    """A string field of a protobuf message; none if it is empty."""
    data = text.encode()
    return bytes([number << 3 | 2, len(data)]) + data if data else b""


def health(channel: grpc.Channel, service: str) -> bytes:
    """grpc.health.v1.Health/Check, as bytes: no generated code is needed."""
    answer: bytes = channel.unary_unary("/grpc.health.v1.Health/Check")(
        field(1, service), timeout=10)
    return answer


SERVING = b"\x08\x01"


class Server:
    """One attn-server; `port` has what its log says of its addresses."""

    def __init__(self, program: pathlib.Path, pool: Pool, folder: pathlib.Path):
        self.pool = pool
        self._folder = folder
        self._log = folder / "log"
        with self._log.open("wb") as log:
            # pylint: disable-next=consider-using-with
            self._process = subprocess.Popen(
                [program, *self._flags()], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL)

    def _flags(self) -> Iterator[str]:
        for name, value in self.pool.flags.items():
            value = re.sub(r"\$\((\w+)\)", lambda match: NAMES[match[1]], value)
            if name in ADDRESSES.values():
                value = "127.0.0.1:0"
            elif name in FILE_FLAGS:
                value = str(self._folder / pathlib.Path(value).name)
            yield f"--{name}={value}"

    def address(self, name: str) -> str:
        """host:port of "grpc" or "http", once it listens there."""
        pattern = {"grpc": r"SERVING on (127\.0\.0\.1:\d+)",
                   "http": r"page: https?://(127\.0\.0\.1:\d+)"}[name]
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            log = self._log.read_text(encoding="utf-8").replace("\\/", "/")
            if match := re.search(pattern, log):
                return match[1]
            time.sleep(0.05)
        raise RuntimeError(f"{self.pool.name} does not serve:\n"
                           + self._log.read_text(encoding="utf-8"))

    def stop(self) -> int:
        """Twice, so that it does not wait for calls that nobody sends."""
        for _ in range(2):
            self._process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        return self._process.wait(STOP_SECONDS)


def ask(server: Server, probe: Object) -> str:
    """What is wrong with the answer to a probe; nothing, if it is well."""
    if "grpc" in probe:
        with grpc.insecure_channel(server.address("grpc")) as channel:
            answer = health(channel, probe["grpc"].get("service", ""))
            return "" if answer == SERVING else f"answers {answer!r}"
    get = probe["httpGet"]
    # As the kubelet: no certificate is checked.
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    url = f"{get['scheme'].lower()}://{server.address('http')}{get['path']}"
    with urllib.request.urlopen(url, timeout=10, context=trusting) as response:
        return "" if response.status == 200 else f"answers {response.status}"


def unknown_service_is_refused(server: Server) -> bool:
    with grpc.insecure_channel(server.address("grpc")) as channel:
        try:
            health(channel, "attention.v1.Attention")
        except grpc.RpcError as error:
            return bool(error.code() == grpc.StatusCode.NOT_FOUND)
    return False


def owner(server: Server, client: pathlib.Path) -> str:
    """Whom a session's steps are sent to."""
    output = subprocess.run(
        [client, "--address", server.address("grpc"), "session", "open",
         "--q-heads", "1", "--q-dim", "4"], check=True, capture_output=True,
        text=True, timeout=60).stdout
    match = re.search(r"steps go to (\S+)", output)
    return match[1] if match else ""


def make_files(folder: pathlib.Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=attn",
         "-keyout", folder / "tls.key", "-out", folder / "tls.crt"],
        check=True, capture_output=True)
    tokens = folder / "tokens"
    tokens.write_text(f"team-a {'5b' * 32}\n", encoding="utf-8")
    tokens.chmod(0o440)


def faults_of(server: Server, bin_folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """What was looked at, and what is wrong with it."""
    yield "it serves", "" if server.address("grpc") else "no"
    for name, probe in server.pool.probes():
        yield f"its {name}", ask(server, probe)
    if "tls-cert" in server.pool.flags:
        return
    refused = unknown_service_is_refused(server)
    yield "a probe of a service that there is not", "" if refused else "is answered"
    if "advertise-address" in server.pool.flags:
        name = owner(server, bin_folder / "attn")
        wanted = "attn-sessions-0.attn-headless-sessions.attn.svc:8001"
        yield "a session's owner", "" if name == wanted else f"is {name}"


def main() -> None:
    bin_folder = pathlib.Path(sys.argv[1])
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = []
        for path in map(pathlib.Path, sys.argv[2:]):
            own = pathlib.Path(folder) / path.stem
            own.mkdir()
            make_files(own)
            servers.append(Server(bin_folder / "attn-server", Pool(path.stem, load(
                path.read_text(encoding="utf-8"))), own))
            # Also if one of those after it cannot be asked.
            stack.callback(servers[-1].stop)
        for server in servers:
            for what, fault in faults_of(server, bin_folder):
                passed, failed = passed + (not fault), failed + bool(fault)
                print("FAILED" if fault else "ok", f"{server.pool.name}: {what}",
                      fault)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    os.environ.pop("ATTN_ADDRESS", None)
    main()

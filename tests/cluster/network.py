"""Network: machines that are network namespaces, and a switch between them.

run.sh starts the tests in mount, process and network namespaces of their own, so
that whatever they make ends with them, however they end. There is nothing to clean
up on the machine.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
from typing import IO, Mapping

from name_server import NameServer

# The test's own machine, from which it calls.
CLIENT = "client"
_SWITCH = "switch"
_SUBNET = "10.77.0"


def run(*command: str) -> str:
    """What the command prints; RuntimeError with its words if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """A machine: a network namespace with one interface, eth0."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address

    def command(self, *command: str) -> list[str]:
        """The command that runs it there."""
        if self.name == CLIENT:
            return list(command)
        return ["nsenter", f"--net=/run/netns/{self.name}", "--", *command]

    def run(self, *command: str) -> str:
        return run(*self.command(*command))

    def set_kernel(self, name: str, value: str) -> None:
        """A setting of its network, as sysctl names it."""
        path = f"/proc/sys/{name.replace('.', '/')}"
        self.run("sh", "-c", 'echo "$1" > "$0"', path, value)

    def start(
        self,
        *command: str,
        output: IO[bytes],
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
        )


class Network:
    """Hosts by name, found by a name server on the test's own machine. For one
    thread."""

    def __init__(self) -> None:
        self._next = 10
        self._folder = pathlib.Path(tempfile.mkdtemp())
        self.names = NameServer(f"{_SUBNET}.2")
        run("ip", "link", "set", "lo", "up")
        run("ip", "netns", "add", _SWITCH)
        self._in_switch("ip", "link", "add", "br0", "type", "bridge")
        self._in_switch("ip", "link", "set", "br0", "up")
        self.client = Host(CLIENT, f"{_SUBNET}.2")
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", CLIENT,
            "netns", _SWITCH)  # fmt: skip
        self._plug_in(self.client)
        self._use_names()
        self.names.start()

    def add_host(self, name: str) -> Host:
        """A machine that the others find by its name."""
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth",
            "peer", "name", name, "netns", _SWITCH)  # fmt: skip
        host = Host(name, self._new_address())
        self._plug_in(host)
        host.run("ip", "link", "set", "lo", "up")
        self.names.set(name, host.address)
        return host

    def move(self, host: Host) -> None:
        """Gives the host another address, as a container gets that is made anew."""
        host.run("ip", "address", "flush", "dev", "eth0")
        host.address = self._new_address()
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        self.names.set(host.name, host.address)

    def close(self) -> None:
        self.names.stop()
        shutil.rmtree(self._folder)

    def _new_address(self) -> str:
        self._next += 1
        return f"{_SUBNET}.{self._next}"

    def _in_switch(self, *command: str) -> None:
        run("nsenter", f"--net=/run/netns/{_SWITCH}", "--", *command)

    def _plug_in(self, host: Host) -> None:
        self._in_switch("ip", "link", "set", host.name, "master", "br0", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")

    def _use_names(self) -> None:
        """For all programs of the test, none beside it."""
        for file, text in {
            "/etc/resolv.conf": f"nameserver {self.client.address}\n",
            "/etc/hosts": "127.0.0.1 localhost\n",
        }.items():
            own = self._folder / pathlib.Path(file).name
            own.write_text(text, "utf-8")
            run("mount", "--bind", str(own), str(pathlib.Path(file).resolve()))

"""A cluster for each test, on one network. ATTN_BIN is the folder of attn-server and
cluster_client; run.sh makes the namespaces, or says in ATTN_NO_CLUSTER why it
cannot."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable, Iterator

import pytest

from load import CallLoad, Decodes
from network import Host, Network
from proxy import HAProxy, Nginx
from server import Server

_FIGURES: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = os.environ.get("ATTN_NO_CLUSTER", "")
    if "ATTN_BIN" not in os.environ:
        reason = "this is run by tests/cluster/run.sh"
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _FIGURES:
        terminalreporter.section("figures")
    for line in _FIGURES:
        terminalreporter.write_line(line)


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """note(text): a line of the summary of figures."""

    def write(text: str) -> None:
        _FIGURES.append(f"{request.node.name}: {text}")

    return write


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


@pytest.fixture(scope="session")
def hosts(network: Network) -> dict[str, Host]:
    return {
        name: network.add_host(name)
        for name in ("attn-1", "attn-2", "attn-3", "proxy")
    }


class Cluster:
    """Servers, proxies and clients that end with the test. For one thread."""

    def __init__(
        self, network: Network, hosts: dict[str, Host], folder: pathlib.Path
    ) -> None:
        self.network = network
        self.folder = folder
        self.servers: list[Server] = []
        self._hosts = hosts
        self._open: list[Any] = []

    def start_servers(self, count: int, *flags: str) -> list[Server]:
        """The next ones: attn-1, attn-2, attn-3. With {name} in a flag for the
        host's."""
        begun = []
        for _ in range(count):
            host = self._hosts[f"attn-{len(self.servers) + 1}"]
            own = [flag.format(name=host.name) for flag in flags]
            server = Server(host, self.folder, *own)
            self._open.append(server)
            server.start()
            self.servers.append(server)
            begun.append(server)
        return begun

    def start_haproxy(self) -> HAProxy:
        """Returns when it gives calls to all servers."""
        proxy = HAProxy(self._hosts["proxy"], self.folder / "haproxy.log")
        self._open.append(proxy)
        proxy.start()
        proxy.await_state([server.name for server in self.servers], up=True)
        return proxy

    def start_nginx(self) -> Nginx:
        proxy = Nginx(self._hosts["proxy"], self.folder / "nginx.log")
        self._open.append(proxy)
        proxy.start(self.folder)
        return proxy

    def load(self, address: str, calls: int, **options: Any) -> CallLoad:
        self._open.append(CallLoad(address, calls, **options))
        found: CallLoad = self._open[-1]
        return found

    def decodes(self, addresses: list[str], sessions: int, **options: Any) -> Decodes:
        self._open.append(Decodes(addresses, sessions, **options))
        found: Decodes = self._open[-1]
        return found

    @property
    def client_side(self) -> str:
        """All servers as one address, for a client that divides its calls itself."""
        return "ipv4:" + ",".join(server.target for server in self.servers)

    def close(self) -> None:
        for one in reversed(self._open):
            one.close()


@pytest.fixture
def cluster(
    network: Network, hosts: dict[str, Host], tmp_path: pathlib.Path
) -> Iterator[Cluster]:
    made = Cluster(network, hosts, tmp_path)
    try:
        yield made
    finally:
        made.close()

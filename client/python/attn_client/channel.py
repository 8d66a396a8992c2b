"""The connection: TLS, tokens, message sizes, deadlines."""

from __future__ import annotations

import contextlib
import copy
import ipaddress
import pathlib
import threading
from dataclasses import dataclass
from typing import Any, Iterator

import grpc

from .errors import closed, from_rpc_error, refuse
from .wire import Buffer

# Lengths are 32-bit integers in protobuf, so that no peer could read more.
LARGEST_MESSAGE = 2**31 - 1
# As the C++ client: servers allow pings every 10 s and more.
_KEEPALIVE_MS = 30_000
# A server that was just started again is found soon, as by the C++ client.
_FIRST_RECONNECT_MS = 100
_LAST_RECONNECT_MS = 5_000
_SYSTEM_ROOTS = "system"
# Of addresses that stand for several servers.
_DNS = "dns:///"
_NUMERIC = ("ipv4:", "ipv6:")


@dataclass(frozen=True)
class Security:
    """How a client trusts a server, and what it shows to be trusted. Files are
    read once, when the client is made; AttentionClient documents the fields."""

    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_server_name: str | None = None
    token: str | None = None
    token_file: str | None = None
    allow_plaintext_token: bool = False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def names_several(address: str) -> bool:
    """Whether there may be several servers behind it, among which calls go round."""
    return address.startswith((_DNS, *_NUMERIC))


def _parts(address: str) -> list[str]:
    """The host:port that an address stands for; one alone for most."""
    for scheme in _NUMERIC:
        if address.startswith(scheme):
            return address[len(scheme) :].split(",")
    return [address.removeprefix(_DNS)]


def _host(part: str) -> str:
    return part.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _is_numeric(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def check_address(address: str) -> None:
    """InvalidArgumentError unless it is host:port or unix:/path, each one server;
    or dns:///name:port, every address of the name; or ipv4:host:port,host:port
    (also ipv6:), these."""
    meant = address != "unix:"
    for part in [] if address.startswith("unix:") else _parts(address):
        port = part.rpartition(":")[2]
        meant = meant and bool(_host(part))
        meant = meant and _is_number(port) and 0 < int(port) < 65536
        for scheme in _NUMERIC:
            if address.startswith(scheme):
                meant = meant and _is_numeric(_host(part), int(scheme[3]))
    if not meant:
        expected = "host:port, unix:/path, dns:///name:port or ipv4:host:port,host:port"
        refuse("address", repr(address), expected)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_this_machine(address: str) -> bool:
    """Whether only this machine can be behind the address."""
    if address.startswith("unix:"):
        return True
    return all(_is_loopback(_host(part)) for part in _parts(address))


def _read(field: str, path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        refuse(field, f"{path} ({error.strerror})", "a file that can be read")


def _read_pem(field: str, path: str, mark: bytes) -> bytes:
    text = _read(field, path)
    if mark not in text:
        refuse(field, path, f"a PEM file with {mark.decode()}")
    return text


def _credentials(security: Security) -> Any:
    roots: bytes | None = None
    if security.tls_ca is not None and security.tls_ca != _SYSTEM_ROOTS:
        roots = _read_pem("tls_ca", security.tls_ca, b"-----BEGIN CERTIFICATE-----")
    chain: bytes | None = None
    key: bytes | None = None
    if security.tls_cert is not None and security.tls_key is not None:
        chain = _read_pem("tls_cert", security.tls_cert, b"-----BEGIN CERTIFICATE-----")
        key = _read_pem("tls_key", security.tls_key, b"PRIVATE KEY-----")
    return grpc.ssl_channel_credentials(roots, key, chain)


def _check_together(security: Security) -> None:
    if (security.tls_cert is None) != (security.tls_key is None):
        missing = "tls_cert" if security.tls_cert is None else "tls_key"
        refuse(missing, "nothing", "a file, as the other of the two is given")
    if security.tls_ca is None:
        for name in ("tls_cert", "tls_server_name"):
            if getattr(security, name) is not None:
                refuse("tls_ca", "nothing", f"a file, as {name} is given")
    if security.token is not None and security.token_file is not None:
        refuse("token_file", "a token too", "one of the two")


def _is_visible(text: str) -> bool:
    return text != "" and all("!" <= c <= "~" for c in text)


def _token(security: Security) -> str | None:
    token, field = security.token, "token"
    if security.token_file is not None:
        field = "token_file"
        raw = _read(field, security.token_file)
        token = raw.decode("latin-1").strip()
    if token is None:
        return None
    if not _is_visible(token):
        refuse(field, security.token_file or "something else", "one visible token")
    return token


class Channel:
    """A gRPC channel that speaks bytes. Thread-safe."""

    def __init__(self, address: str, security: Security) -> None:
        check_address(address)
        _check_together(security)
        self.address = address
        self._closed = threading.Event()
        self._metadata: list[tuple[str, str]] = []
        self._route: list[tuple[str, str]] = []
        tls = security.tls_ca is not None and not address.startswith("unix:")
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            ("grpc.max_send_message_length", LARGEST_MESSAGE),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
            ("grpc.max_reconnect_backoff_ms", _LAST_RECONNECT_MS),
        ]
        if names_several(address):
            options.append(("grpc.lb_policy_name", "round_robin"))
        token = _token(security)
        if token is not None:
            self._metadata.append(("authorization", f"Bearer {token}"))
            if not tls and not is_this_machine(address):
                if not security.allow_plaintext_token:
                    refuse(
                        "tls_ca",
                        "nothing",
                        f"a file: the token would cross the network to {address} in "
                        "plain text (allow_plaintext_token permits it)",
                    )
            elif not tls:
                # A proxy that the environment names would carry it off the machine.
                options.append(("grpc.enable_http_proxy", 0))
        if security.tls_server_name is not None:
            options.append(("grpc.ssl_target_name_override", security.tls_server_name))
        if tls:
            credentials = _credentials(security)
            self._channel = grpc.secure_channel(address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(address, options)

    def about(self, session_id: str, owner: str = "") -> Channel:
        """The same connection, whose calls name their session, and its server if
        that is given, to proxies that bring them there."""
        other = copy.copy(self)
        named = [("x-attn-session", session_id), ("x-attn-route", owner)]
        other._route = [(key, value) for key, value in named if _is_visible(value)]
        return other

    def call(self, method: str, request: bytes, timeout: float) -> bytes:
        """One unary call, which is waited for. AttnError if it fails."""
        # Without serializers gRPC hands the bytes on as they are.
        unary = self._channel.unary_unary(method)
        try:
            with self._while_open():
                response: bytes = unary(
                    request, timeout=timeout, metadata=[*self._metadata, *self._route]
                )
        except grpc.RpcError as error:
            raise from_rpc_error(error, self.address) from None
        return response

    def stream(self, method: str, requests: Any, timeout: float | None) -> Any:
        """A stream both ways: an iterator of bytes, with gRPC's cancel(). Without
        a timeout it has no end of its own."""
        stream = self._channel.stream_stream(method)
        with self._while_open():
            return stream(
                requests, timeout=timeout, metadata=[*self._metadata, *self._route]
            )

    @contextlib.contextmanager
    def _while_open(self) -> Iterator[None]:
        """Turns what gRPC raises on a closed channel into an AttnError."""
        try:
            yield
        except ValueError:
            if not self._closed.is_set():
                raise
            raise closed(self.address) from None

    def close(self) -> None:
        """Ends the connection and the calls on it."""
        self._closed.set()
        self._channel.close()


def join(parts: list[Buffer]) -> bytes:
    """The one copy of a message that is made on this side."""
    return b"".join(parts)

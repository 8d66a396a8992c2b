"""TLS, client certificates and bearer tokens."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from attn_client import (
    AttentionClient,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
)
from attn_client.channel import is_this_machine

TOKEN = "5b0c" * 16


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certify(folder, name: str, ca: str | None, *subject: str) -> None:
    """<name>.pem and <name>.key, signed by the CA of that name or by itself."""
    signer = [] if ca is None else ["-CA", f"{folder}/{ca}.pem"]
    signer += [] if ca is None else ["-CAkey", f"{folder}/{ca}.key"]
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout",
        f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem", *signer, *subject,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pem")
    certify(folder, "ca", None)
    certify(folder, "stranger", None)
    leaf = ("-addext", "basicConstraints=critical,CA:false")
    certify(
        folder, "server", "ca", *leaf, "-addext", "subjectAltName=DNS:attn.test"
    )
    certify(folder, "client", "ca", *leaf)
    names = ("ca", "stranger", "server", "client")
    return SimpleNamespace(
        **{name: f"{folder}/{name}.pem" for name in names},
        **{f"{name}_key": f"{folder}/{name}.key" for name in names},
        folder=folder,
    )


@pytest.fixture(scope="module")
def guarded(start_server, pem):
    """A server with TLS that asks for client certificates and tokens."""
    tokens = pem.folder / "tokens"
    tokens.write_text(f"team-a {TOKEN}\n")
    tokens.chmod(0o600)
    return start_server(
        f"--tls-cert={pem.server}",
        f"--tls-key={pem.server_key}",
        f"--tls-client-ca={pem.ca}",
        f"--auth-token-file={tokens}",
    )


@pytest.fixture
def trusted(pem):
    return {
        "tls_ca": pem.ca,
        "tls_cert": pem.client,
        "tls_key": pem.client_key,
        "tls_server_name": "attn.test",
    }


def test_tls_with_a_certificate_and_a_token(guarded, trusted, pem):
    file = pem.folder / "token"
    file.write_text(TOKEN + "\n")
    one = np.ones((1, 1, 1, 2), np.float32)
    for token in ({"token": TOKEN}, {"token_file": str(file)}):
        with AttentionClient(guarded.address, **trusted, **token) as client:
            assert client.health() == "SERVING"
            assert np.array_equal(client.attend(one, one, one).output, one)


def test_a_missing_or_wrong_token(guarded, trusted):
    for token in ({}, {"token": "x" * 64}):
        with AttentionClient(guarded.address, **trusted, **token) as client:
            with pytest.raises(UnauthenticatedError) as refused:
                client.info()
            assert "x" * 64 not in str(refused.value)


def test_a_server_that_is_not_trusted(guarded, trusted, pem):
    for change in ({"tls_ca": pem.stranger}, {"tls_server_name": "other.test"}):
        options = {**trusted, **change}
        with AttentionClient(guarded.address, token=TOKEN, **options) as client:
            with pytest.raises(UnavailableError) as refused:
                client.info(timeout=20)
        assert guarded.address in refused.value.message


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tls_cert": "a"}, "tls_key"),
        ({"tls_key": "a"}, "tls_cert"),
        ({"tls_cert": "a", "tls_key": "b"}, "tls_ca"),
        ({"tls_server_name": "a"}, "tls_ca"),
        ({"tls_ca": "/no/such/file"}, "tls_ca"),
        ({"token": "a", "token_file": "b"}, "token_file"),
        ({"token": "two words"}, "token"),
        ({"token": ""}, "token"),
        ({"token_file": "/no/such/file"}, "token_file"),
    ],
)
def test_what_does_not_fit_together(options, field):
    with pytest.raises(InvalidArgumentError) as refused:
        AttentionClient("127.0.0.1:8001", **options)
    assert refused.value.field == field
    assert "two words" not in str(refused.value)


def test_a_file_that_is_no_certificate(pem):
    with pytest.raises(InvalidArgumentError, match="BEGIN CERTIFICATE"):
        AttentionClient("127.0.0.1:8001", tls_ca=pem.ca_key)


def test_a_token_leaves_the_machine_under_tls_only():
    with pytest.raises(InvalidArgumentError, match="in plain text"):
        AttentionClient("attn.test:8001", token=TOKEN)
    AttentionClient("attn.test:8001", token=TOKEN, allow_plaintext_token=True).close()
    AttentionClient("attn.test:8001", token=TOKEN, tls_ca="system").close()
    AttentionClient("127.0.0.1:8001", token=TOKEN).close()


def test_which_addresses_are_this_machine():
    here = ("unix:/a", "localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1")
    here += ("dns:///localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1")
    assert all(is_this_machine(address) for address in here)
    away = ("10.0.0.1:1", "attn.test:1", "[::2]:1", "0.0.0.0:1", "127.0.0.1.test:1")
    away += ("dns:///attn.test:1", "ipv4:127.0.0.1:1,10.0.0.1:1")
    assert not any(is_this_machine(address) for address in away)


def test_a_unix_socket(start_server, tmp_path):
    address = f"unix:{tmp_path}/attn"
    start_server(f"--grpc-address={address}")
    with AttentionClient(address) as client:
        assert client.health() == "SERVING"

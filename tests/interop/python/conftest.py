"""The channel to the server in ATTN_ADDRESS, over TLS if ATTN_TLS_CA names a CA.

The stubs are protoc's, as it makes them; run.sh has them on PYTHONPATH.
"""

import os
import pathlib

import grpc
import pytest


@pytest.fixture(scope="session")
def channel():
    address = os.environ["ATTN_ADDRESS"]
    if "ATTN_TLS_CA" not in os.environ:
        with grpc.insecure_channel(address) as one:
            yield one
        return
    roots = pathlib.Path(os.environ["ATTN_TLS_CA"]).read_bytes()
    name = os.environ["ATTN_TLS_SERVER_NAME"]
    options = [("grpc.ssl_target_name_override", name)]
    credentials = grpc.ssl_channel_credentials(roots)
    with grpc.secure_channel(address, credentials, options) as one:
        yield one

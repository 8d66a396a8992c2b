"""The package itself: its options, its stubs, its documentation."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import attn_client
from attn_client import results
from attn_client.options import CallOptions, build_call
from attn_client.session_options import SessionOptions
from attn_client.v1 import attention_pb2 as pb
from attn_client.v1 import session_pb2

SOURCE = pathlib.Path(__file__).resolve().parents[3] / "client" / "python"


def test_every_option_is_documented_and_typed():
    parameters = inspect.signature(build_call).parameters
    options = {n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert options == set(CallOptions.__annotations__)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (results.Report, pb.CallReport),
        (results.HeadStatistics, pb.HeadStatistics),
        (results.RowStatistics, pb.RowStatistics),
        (results.AttendResult, pb.AttendResponse),
        (results.Inspection, pb.InspectResponse),
        (results.Plan, pb.PlanResponse),
        (results.ServerInfo, pb.GetServerInfoResponse),
        (results.Limits, pb.Limits),
        (results.SessionInfo, session_pb2.SessionInfo),
    ],
)
def test_results_have_every_field_of_the_schema(kind, message):
    assert {field.name for field in dataclasses.fields(kind)} == set(
        message.DESCRIPTOR.fields_by_name
    )


def test_all_that_is_public_has_a_docstring():
    for name in attn_client.__all__:
        assert inspect.getdoc(getattr(attn_client, name)), name
    for kind in (attn_client.AttentionClient, attn_client.Session):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_"):
                assert inspect.getdoc(member), name


def test_options_of_sessions_are_those_of_calls_and_of_clients():
    calls = CallOptions.__annotations__
    clients = inspect.signature(attn_client.AttentionClient).parameters
    for name, kind in SessionOptions.__annotations__.items():
        if name in calls:
            assert kind.__forward_arg__ == calls[name].__forward_arg__, name
        else:
            assert kind.__forward_arg__ == clients[name].annotation, name


def test_the_package_is_typed():
    assert pathlib.Path(attn_client.__file__).with_name("py.typed").is_file()


def test_stubs_live_in_the_package():
    assert "attention" not in sys.modules
    assert pb.__name__ == "attn_client.v1.attention_pb2"


def test_a_missing_protoc_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "generate_stubs.py", tmp_path, tmp_path],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "protoc is not found: apt-get install protobuf-compiler" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_checkout_without_stubs_says_how_to_get_them(tmp_path):
    stubs = shutil.ignore_patterns("*_pb2*", "__pycache__")
    shutil.copytree(SOURCE / "attn_client", tmp_path / "attn_client", ignore=stubs)
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import attn_client"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "attn_client is not built: pip install ./client/python" in done.stderr

#!/usr/bin/env python3
"""Makes the package's protobuf and gRPC modules from the schema.

    generate_stubs.py PROTO_DIR PACKAGE_DIR

Writes PACKAGE_DIR/v1/*_pb2.py, *_pb2.pyi and *_pb2_grpc.py. protoc would have
them in a top-level package `attention`; here they live in `attn_client.v1`, so
that they clash with nobody's modules. Used by setup.py and by CMake.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SCHEMAS = tuple(
    f"attention/v1/{name}.proto" for name in ("attention", "layer", "session")
)

# How modules of one folder import each other, as protoc writes it.
_IMPORT = re.compile(r"^from attention\.v1 import ", re.MULTILINE)


class StubError(Exception):
    """The stubs cannot be made; one line that says what is missing."""


def find_tool(name: str, package: str) -> str:
    """The path of a program; StubError names the Debian package that has it."""
    path = shutil.which(name)
    if path is None:
        raise StubError(f"{name} is not found: apt-get install {package}")
    return path


def run_protoc(proto_dir: pathlib.Path, out_dir: str) -> None:
    protoc = find_tool("protoc", "protobuf-compiler")
    plugin = find_tool("grpc_python_plugin", "protobuf-compiler-grpc")
    for schema in SCHEMAS:
        if not (proto_dir / schema).is_file():
            raise StubError(
                f"{proto_dir / schema} is not there: build from a checkout of "
                "the repository, pip install ./client/python"
            )
    command = [
        protoc,
        f"--proto_path={proto_dir}",
        f"--python_out={out_dir}",
        f"--pyi_out={out_dir}",
        f"--plugin=protoc-gen-grpc={plugin}",
        f"--grpc_out={out_dir}",
        *SCHEMAS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StubError(f"protoc failed: {done.stderr.strip()}")


def generate(proto_dir: pathlib.Path, package_dir: pathlib.Path) -> None:
    """Writes the stubs into package_dir/v1. StubError says what is missing."""
    target = package_dir / "v1"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run_protoc(proto_dir, folder)
        for module in sorted(pathlib.Path(folder, "attention", "v1").iterdir()):
            text = _IMPORT.sub("from . import ", module.read_text("utf-8"))
            (target / module.name).write_text(text, "utf-8")


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        generate(pathlib.Path(arguments[0]), pathlib.Path(arguments[1]))
    except StubError as error:
        print(f"generate_stubs.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds the package: pyproject.toml says what it is, this makes its stubs."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
# A build backend does not look for modules beside setup.py.
sys.path.insert(0, str(HERE))

from generate_stubs import StubError, generate  # noqa: E402


class BuildWithStubs(build_py):
    """build_py, and the modules that protoc makes of the schema."""

    def run(self) -> None:
        super().run()
        editable = getattr(self, "editable_mode", False)
        package = HERE if editable else pathlib.Path(self.build_lib)
        try:
            generate(HERE.parent.parent / "proto", package / "attn_client")
        except StubError as error:
            sys.exit(f"attn_client: {error}")


setup(cmdclass={"build_py": BuildWithStubs})

"""CallLoad and Decodes: cluster_client, which is the C++ library as it is shipped."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import IO, Any

from server import binary

_END_SECONDS = 120


class _Client:
    """cluster_client with a pipe at both ends. For one thread."""

    def __init__(self, *arguments: str) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [binary("cluster_client"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(_END_SECONDS)
            self._errors.seek(0)
            words = self._errors.read().decode("utf-8", "replace")
            raise AssertionError(f"cluster_client ended: {words}")
        return json.loads(line)

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            pipe.close()


class CallLoad(_Client):
    """Callers of Attend without a pause, or with one; every answer is held against
    the oracle, and against the bits of the one before."""

    def __init__(
        self,
        address: str,
        calls: int,
        *,
        callers: int = 8,
        pause_ms: int = 0,
        deadline_ms: int = 10_000,
        retries: bool = True,
    ) -> None:
        super().__init__(
            "calls",
            f"--address={address}",
            f"--calls={calls}",
            f"--callers={callers}",
            f"--pause-ms={pause_ms}",
            f"--deadline-ms={deadline_ms}",
            *([] if retries else ["--attempts=1"]),
        )

    def finish(self) -> dict[str, Any]:
        """Waits until so many calls were made, and tells what became of them:
        call_load.h."""
        self._hang_up()
        told: dict[str, Any] = self._hear()
        return told


class Decodes(_Client):
    """Sessions of RemoteSession that decode, each its own tokens, with a pause before
    each step."""

    def __init__(
        self,
        addresses: list[str],
        sessions: int,
        *,
        through_proxy: bool = False,
        deadline_ms: int = 30_000,
        pause_ms: int = 0,
    ) -> None:
        super().__init__(
            "sessions",
            *(f"--address={address}" for address in addresses),
            f"--sessions={sessions}",
            f"--deadline-ms={deadline_ms}",
            f"--pause-ms={pause_ms}",
            *(["--through-proxy"] if through_proxy else []),
        )

    def begin(self, steps: int) -> None:
        """Each makes so many steps more."""
        self._tell(f"{steps}\n")

    def await_told(self) -> list[dict[str, Any]]:
        """What became of them when those are made: decode.h."""
        told: list[dict[str, Any]] = self._hear()
        return told

    def step(self, steps: int) -> list[dict[str, Any]]:
        self.begin(steps)
        return self.await_told()


def undisturbed(address: str, sessions: int, steps: int) -> list[str]:
    """The digests of the outputs of as many sessions, and as many steps, where
    nothing happens."""
    decodes = Decodes([address], sessions)
    try:
        told = decodes.step(steps)
    finally:
        decodes.close()
    assert all(one["moves"] == 0 and not one["failures"] for one in told), told
    return digests(told)


def digests(told: list[dict[str, Any]]) -> list[str]:
    """In the order of the sessions; AssertionError if an output was wrong."""
    assert all(one["wrong"] == 0 for one in told), told
    return [one["digest"] for one in told]



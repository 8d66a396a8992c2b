"""Waiting for what must come, and reading metrics."""

from __future__ import annotations

import re
import time
import urllib.request
from typing import Callable

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Beyond it a test has failed.
PATIENCE_SECONDS = 60.0

# Opens no proxy that the environment names: they are not on this network.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def until(
    holds: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS
) -> float:
    """Polls until it holds; how many seconds that took. AssertionError after
    `seconds`."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return time.monotonic() - start


def fetch(url: str, timeout: float = 10.0) -> str:
    with _OPENER.open(url, timeout=timeout) as answer:
        text: bytes = answer.read()
    return text.decode("utf-8")


class Metrics:
    """What a Prometheus endpoint told."""

    def __init__(self, url: str) -> None:
        self._samples = [
            (name, dict(_LABEL.findall(labels)), float(value))
            for name, labels, value in _LINE.findall(fetch(url))
        ]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of the name that have these labels."""
        return sum(
            value
            for found, having, value in self._samples
            if found == name and labels.items() <= having.items()
        )

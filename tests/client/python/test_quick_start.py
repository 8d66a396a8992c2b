"""The Python programs of client/examples, and the README that shows them."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import formulas as f

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "client"
EXAMPLES = CLIENT / "examples"


def run(program: str, *addresses: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", EXAMPLES / program, *addresses]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_it_computes_what_its_formula_says(server):
    done = run("quick_start.py", server.address)
    assert done.returncode == 0, done.stderr
    numbers, kernel = done.stdout.split(" by the kernel ")
    q = np.array([[[[1, 0], [0, 1], [1, 1]]]])
    v = np.array([[[[1, 2], [3, 4], [5, 6]]]])
    weights = f.softmax(f.exclude(f.scores(q, q), f.top_left(3, 3)))
    found = [float(number) for number in numbers.split()]
    np.testing.assert_allclose(found, f.weigh(weights, v).ravel(), rtol=1e-6)
    assert kernel.strip()


def test_without_a_server_it_says_so_in_one_line():
    done = run("quick_start.py", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("quick_start: no server answers at 127.0.0.1:1")
    assert len(done.stderr.splitlines()) == 1


def test_a_session_goes_to_the_server_that_is_there(server):
    done = run("session.py", "127.0.0.1:1", server.address)
    assert done.returncode == 0, done.stderr
    numbers, moves = done.stdout.split(" after ")
    tokens = np.array([[[[1, 0], [0, 1], [1, 1]]]])
    expected = f.weigh(f.softmax(f.scores(tokens[:, :, 2:], tokens)), tokens)
    found = [float(number) for number in numbers.split()]
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-6)
    assert moves == "0 moves\n"


def test_a_session_without_a_server_says_so_in_one_line():
    done = run("session.py", "127.0.0.1:1")
    assert done.returncode == 1
    expected = "session: UNAVAILABLE: no server answers at 127.0.0.1:1"
    assert done.stderr.startswith(expected)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("program", ["quick_start.py", "session.py"])
def test_the_readme_shows_them_as_they_are(program):
    readme = (CLIENT / "python" / "README.md").read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert (EXAMPLES / program).read_text("utf-8") in shown

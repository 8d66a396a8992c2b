"""client/examples/quick_start.py, and the README that shows it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import numpy as np

import formulas as f

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "client"
EXAMPLE = CLIENT / "examples" / "quick_start.py"


def run(address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", EXAMPLE, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_it_computes_what_its_formula_says(server):
    done = run(server.address)
    assert done.returncode == 0, done.stderr
    numbers, kernel = done.stdout.split(" by the kernel ")
    q = np.array([[[[1, 0], [0, 1], [1, 1]]]])
    v = np.array([[[[1, 2], [3, 4], [5, 6]]]])
    weights = f.softmax(f.exclude(f.scores(q, q), f.top_left(3, 3)))
    found = [float(number) for number in numbers.split()]
    np.testing.assert_allclose(found, f.weigh(weights, v).ravel(), rtol=1e-6)
    assert kernel.strip()


def test_without_a_server_it_says_so_in_one_line():
    done = run("127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("quick_start: no server answers at 127.0.0.1:1")
    assert len(done.stderr.splitlines()) == 1


def test_the_readme_shows_it_as_it_is():
    readme = (CLIENT / "python" / "README.md").read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert EXAMPLE.read_text("utf-8") in shown

"""shapes.csv for the peers in Python, and the rule by which calls are timed."""

import csv
import os
import time
from typing import NamedTuple

WINDOW = 256


class Shape(NamedTuple):
    name: str
    batch: int
    q_heads: int
    kv_heads: int
    q_length: int
    kv_length: int
    dim: int
    mode: str
    dtypes: tuple
    compare: str

    def lengths(self):
        """Of the sequences of the modes pad and ragged."""
        step = {"pad": lambda b: 9 * b % 64, "ragged": lambda b: 61 * b}
        return [self.kv_length - step[self.mode](b) for b in range(self.batch)]


def read_shapes(path=None):
    path = path or os.path.join(os.path.dirname(__file__), "shapes.csv")
    with open(path, encoding="utf-8", newline="") as stream:
        rows = csv.reader(line for line in stream if not line.startswith("#"))
        return [Shape(row[0], *map(int, row[1:7]), row[7],
                      tuple(row[8].split("+")), row[9]) for row in rows]


def chosen(only, dtype, modes):
    """The shapes of one element type that a peer can be asked for."""
    names = only.split(",") if only else None
    return [shape for shape in read_shapes()
            if shape.mode in modes and dtype in shape.dtypes and
            (names is None or shape.name in names)]


def seconds_of(runs, call):
    begin = time.perf_counter()
    for _ in range(runs):
        call()
    return (time.perf_counter() - begin) / runs


def time_calls(call, budget):
    """(median, best, windows) in ms: the rule of timed_runs.cc."""
    call()
    once = max(seconds_of(1, call), 1e-9)
    for _ in range(min(20, int(0.1 / once))):
        call()
    in_window = max(1, int(2e-4 / once))
    fewest = 1 if once > 1 else 3
    windows = max(fewest, min(2000, int(budget / (once * in_window))))
    times = sorted(1e3 * seconds_of(in_window, call) for _ in range(windows))
    return times[len(times) // 2], times[0], windows


def report(peer, shape, dtype, threads, times, error=None):
    """One line of CSV; `error`: the largest difference from the formula."""
    line = f"{peer},{shape.name},{dtype},{threads}," + \
        f"{times[0]:.5f},{times[1]:.5f},{times[2]}"
    print(line if error is None else f"{line},{error:.1e}", flush=True)

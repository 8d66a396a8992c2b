#!/usr/bin/env python3
"""Makes a table of what peers.sh measured.

usage: report.py MEASURED.csv [--json FILE] [--plot FILE.png] [--markdown]

Every figure is the quietest window of all rounds, of ours as of the peers and
of the machine's limits; with --json the medians come too.
"""

import argparse
import csv
import datetime
import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict

import shapes

# Shown but not ranked: they do less than our call does.
PARTIAL = ("backward-only",)
WIDTHS = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}


class Measured:
    """The lines of all rounds, by what they measured."""

    def __init__(self, path):
        self.times = defaultdict(list)    # (name, shape, dtype, threads)
        self.limits = defaultdict(list)   # (what, threads)
        self.memory = {}                  # (shape, dtype, threads) in MiB
        self.kernels = {}                 # (shape, dtype, threads)
        with open(path, encoding="utf-8", newline="") as stream:
            for row in csv.reader(stream):
                if row and not row[0].startswith("#"):
                    self.add(row)

    def add(self, row):
        if row[0] == "limit":
            self.limits[row[1], int(row[2])].append(float(row[4]))
            return
        key = (row[1], row[2], int(row[3]))
        if row[0] == "memory":
            self.memory[key] = float(row[4])
            return
        if row[0] == "attn":
            self.kernels[key] = row[7]
        self.times[(row[0], *key)].append((float(row[4]), float(row[5])))

    def best(self, *key):
        times = self.times.get(key)
        return min(best for _, best in times) if times else None

    def median(self, *key):
        times = self.times.get(key)
        return statistics.median(m for m, _ in times) if times else None

    def limit(self, what, threads):
        return max(self.limits.get((what, threads), [0])) or None

    def peers(self, key):
        return {name: self.best(name, *key) for name, *rest in self.times
                if tuple(rest) == key and name != "attn"}


def visible_keys(shape):
    """Of all query rows of one head of all sequences."""
    if shape.mode in ("pad", "ragged"):
        return sum(length ** 2 for length in shape.lengths())
    rows = range(shape.q_length)
    last = shape.kv_length - shape.q_length
    if shape.mode == "causal":
        return shape.batch * sum(last + row + 1 for row in rows)
    if shape.mode == "window":
        return shape.batch * sum(min(last + row + 1, shapes.WINDOW)
                                 for row in rows)
    return shape.batch * shape.q_length * shape.kv_length


def flops_of(shape):
    if shape.mode == "linear":
        # The state grows by k v, q reads it: two products of d x d a key.
        return 4.0 * shape.batch * shape.q_heads * shape.kv_length * \
            shape.dim ** 2
    products = 2.5 if shape.mode == "backward" else 1
    return 4.0 * products * shape.q_heads * visible_keys(shape) * shape.dim


def bytes_of(shape, dtype):
    """What must come from memory: the bias; of a decode, keys and values."""
    if shape.mode == "bias":
        return shape.batch * shape.q_heads * shape.q_length * \
            shape.kv_length * WIDTHS[dtype]
    if shape.q_length == 1:
        return 2 * shape.batch * shape.kv_heads * shape.kv_length * \
            shape.dim * WIDTHS[dtype]
    return 0


def limit_ms(measured, shape, dtype, threads):
    """None if a rate that it needs was not measured."""
    fma = measured.limit("fma", threads)
    exp = measured.limit("exp", threads)
    read_bytes = bytes_of(shape, dtype)
    read = measured.limit(f"read:{read_bytes}", threads) if read_bytes else 1
    if None in (fma, exp, read):
        return None
    if shape.q_length == 1:
        return max(read_bytes / read, flops_of(shape) / fma) / 1e6
    exps = 0 if shape.mode in ("sparsemax", "entmax", "linear") else \
        shape.q_heads * visible_keys(shape)
    return (flops_of(shape) / fma + exps / exp + read_bytes / read) / 1e6


def row_of(measured, shape, dtype, threads):
    key = (shape.name, dtype, threads)
    ours = measured.best("attn", *key)
    peers = measured.peers(key)
    ranked = {name: ms for name, ms in peers.items()
              if not name.endswith(PARTIAL)}
    best = min(ranked, key=ranked.get) if ranked else None
    base = measured.best("attn", shape.compare, dtype, threads) \
        if shape.compare else None
    row = {"shape": shape.name, "dtype": dtype, "threads": threads,
           "ours_ms": ours,
           "limit_ms": limit_ms(measured, shape, dtype, threads),
           "peers": peers, "best_peer": best,
           "ratio": peers[best] / ours if best and ours else None,
           "ours_median_ms": measured.median("attn", *key),
           "peers_median_ms": {name: measured.median(name, *key)
                               for name in peers},
           "kernel": measured.kernels.get(key),
           "memory_mib": measured.memory.get(key),
           "compared_with": shape.compare or None,
           "times_that": ours / base if ours and base else None,
           "speedup": None}
    alone = measured.best("attn", shape.name, dtype, 1)
    if threads > 1 and ours and alone:
        row["speedup"] = alone / ours
    f32 = measured.best("attn", shape.name, "f32", threads)
    row["times_f32"] = ours / f32 if ours and f32 and dtype != "f32" else None
    return row


def rows_of(measured):
    keys = {tuple(rest) for _, *rest in measured.times}
    return [row_of(measured, shape, dtype, threads)
            for threads in sorted({key[2] for key in keys})
            for shape in shapes.read_shapes() for dtype in shape.dtypes
            if (shape.name, dtype, threads) in keys]


def milliseconds(value):
    return "" if value is None else f"{value:.4g}"


def percent(part, whole):
    return "" if not part or not whole else f"{100 * part / whole:.0f} %"


def remarks_of(row):
    if row["times_that"]:
        yield f"{row['times_that']:.2f} x {row['compared_with']}"
    if row["times_f32"]:
        yield f"{row['times_f32']:.2f} x f32"
    if row["speedup"]:
        yield f"{row['speedup']:.2f} x as fast as one thread"
    if row["memory_mib"] is not None:
        yield f"{row['memory_mib']:.0f} MiB over its tensors"
    for name, ms in row["peers"].items():
        if name.endswith(PARTIAL):
            yield f"{name} {ms:.4g} ms"


HEADER = ["shape", "dtype", "T", "ours ms", "limit ms", "of limit",
          "best peer", "its ms", "ratio", "kernel", "remarks"]


def cells_of(row):
    best = row["best_peer"]
    return [row["shape"], row["dtype"], str(row["threads"]),
            milliseconds(row["ours_ms"]), milliseconds(row["limit_ms"]),
            percent(row["limit_ms"], row["ours_ms"]), best or "",
            milliseconds(row["peers"].get(best)),
            f"{row['ratio']:.2f}" if row["ratio"] else "",
            row["kernel"] or "", "; ".join(remarks_of(row))]


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        info = dict(line.split(":", 1) for line in stream if ":" in line)
    info = {key.strip(): value.strip() for key, value in info.items()}
    return f"{info.get('model name', 'unknown')} (family " \
        f"{info.get('cpu family', '?')}, model {info.get('model', '?')})"


def describe_limits(measured):
    units = {"fma": "GFLOP/s multiply-add", "exp": "Gelem/s exp"}
    for (what, threads), rates in sorted(measured.limits.items()):
        if what in units:
            yield f"{max(rates):.1f} {units[what]} on {threads} thread(s)"
        else:
            mib = int(what.split(":")[1]) / 2 ** 20
            yield f"{max(rates):.1f} GB/s from {mib:.0f} MiB on " \
                f"{threads} thread(s)"


def print_table(rows, measured, markdown):
    print(f"{datetime.date.today()}, {cpu_name()}: "
          f"{', '.join(describe_limits(measured))}.\n")
    lines = [HEADER] + [cells_of(row) for row in rows]
    if markdown:
        lines.insert(1, ["---"] * len(HEADER))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    for line in lines:
        print("  ".join(cell.ljust(width)
                        for cell, width in zip(line, widths)).rstrip())


def plot(rows, path):
    """Ours and the best peer as shares of the limit, one bar each."""
    shown = [row for row in rows if row["limit_ms"] and row["ours_ms"]]
    with tempfile.NamedTemporaryFile("w", suffix=".dat") as data:
        for row in shown:
            peer = row["peers"].get(row["best_peer"])
            data.write(f"{row['shape']}/{row['dtype']}/{row['threads']} "
                       f"{100 * row['limit_ms'] / row['ours_ms']} "
                       f"{100 * row['limit_ms'] / peer if peer else 0}\n")
        data.flush()
        program = f"""
set terminal pngcairo size {max(900, 24 * len(shown) + 200)},600
set output "{path}"
set style data histogram
set style histogram clustered gap 1
set style fill solid
set xtics rotate by -60 noenhanced
set ylabel "% of the machine's limit"
set yrange [0:*]
set grid y
set key top left
plot "{data.name}" using 2:xtic(1) title "attn", \\
     "" using 3 title "best peer"
"""
        subprocess.run(["gnuplot"], input=program, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    measured = Measured(options.measured)
    rows = rows_of(measured)
    print_table(rows, measured, options.markdown)
    if options.json:
        document = {"date": str(datetime.date.today()), "cpu": cpu_name(),
                    "limits": {f"{what}/{threads}": max(rates)
                               for (what, threads), rates
                               in measured.limits.items()},
                    "rows": rows}
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
    if options.plot:
        os.makedirs(os.path.dirname(options.plot) or ".", exist_ok=True)
        plot(rows, options.plot)


if __name__ == "__main__":
    main()

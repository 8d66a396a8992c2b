#!/usr/bin/python3
"""Measures what steps of sessions cost here, and fits the machine's profile.

usage: measure.py BIN --out PROFILE.json [--raw FILE] [--rounds N]
                  [--seconds S] [--cores N] [--name NAME] [--kinds KIND,...]
       measure.py --from FILE,... --out PROFILE.json [--cores N] [--name NAME]

BIN holds attn and attn-server. Rounds are interleaved. What counts is CPU time
of the server, so that another program costs little; of the rounds the least, for
what disturbs only ever adds.
"""

import argparse
import json
import platform
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fit
import points
import served

MEMORY_POINT = points.Point(8, 8, 128, 1024, 1, "f32")
MEMORY_SESSIONS = 48
# The proxy keeps none, and what the server reads is of no concern.
PROXY_SESSIONS = 8
KINDS = ("step", "bus", "proxy", "memory")
# So little that of resident memory the sessions' is the most.
MEMORY_FLAGS = (f"--max-inflight-bytes={64 << 20}",
                f"--max-message-bytes={16 << 20}",
                f"--max-transport-bytes={64 << 20}")


class TooFewSamples(RuntimeError):
    """The machine was too busy for the time that was given."""


def flags_of(point: points.Point, seconds: float, sessions: int,
             chunk: int = points.CHUNK, callers: int = 8) -> list[str]:
    shape = (1, point.q_heads, point.kv_heads, 1, point.tokens, point.dim)
    return ["--sessions", str(sessions), "--closed", str(callers),
            "--shape", ",".join(map(str, shape)), "--causal",
            "--dtype", point.dtype, "--kv-dtype", point.kv_dtype,
            "--layers", str(point.layers), "--chunk", str(chunk),
            "--duration", f"{seconds}s", "--warmup", "0.3s"]


def slope(samples: list[served.Sample], field: str) -> float:
    """Of a figure, per step."""
    first, last = samples[0], samples[-1]
    return float(getattr(last, field) - getattr(first, field)) / (
        last.steps - first.steps)


def measure_steps(attn: Path, point: points.Point, seconds: float,
                  server: served.AttnServer,
                  proxy: served.HaProxy | None = None) -> dict[str, float]:
    """Of the steps of one token alone: not of those that bring first tokens."""
    address = proxy.address if proxy else server.address
    sessions = PROXY_SESSIONS if proxy else point.sessions
    prefill_steps = point.prefill_steps * sessions // point.sessions
    before = served.take_sample(server, proxy)
    samples, report = served.run_load(
        attn, address, flags_of(point, seconds, sessions), server, proxy)
    begun = before.steps + prefill_steps
    end = max(sample.steps for sample in samples)
    # While the connections stand: the figures of those that are gone are, too.
    while_read = [s for s in samples
                  if s.steps > begun + 0.1 * (end - begun) and s.received > 0]
    if not while_read or while_read[-1].steps == while_read[0].steps:
        raise TooFewSamples(point.name)
    figures = {
        "cpu_s": slope(while_read, "server_cpu"),
        "proxy_cpu_s": slope(while_read, "proxy_cpu"),
        "received": slope(while_read, "received"),
        "sent": slope(while_read, "sent"),
        "per_second": report["achieved_rps"],
        "compute_s": report["server"]["compute_us"]["p50"] / 1e6,
    }
    filled = [s for s in samples if s.steps <= begun]
    if not proxy and len(filled) > 1 and filled[-1].steps > before.steps:
        done = (filled[-1].steps - before.steps) / prefill_steps
        figures["prefill_cpu_s"] = (
            filled[-1].server_cpu - before.server_cpu) / done
    return figures


def patiently(measure: Callable[[float], dict[str, float]],
              seconds: float) -> dict[str, float]:
    for attempt in range(3):
        try:
            return measure(seconds * 2 ** attempt)
        except TooFewSamples:
            continue
    raise RuntimeError("the machine is too busy to measure anything")


def measure_memory(folder: Path) -> dict[str, float]:
    with served.AttnServer(folder, 1, *MEMORY_FLAGS) as server:
        idle = server.idle_bytes
        samples, _ = served.run_load(
            folder / "attn", server.address,
            flags_of(MEMORY_POINT, 1, MEMORY_SESSIONS, chunk=64), server, None)
        return {"idle": idle,
                "full": max(sample.resident for sample in samples),
                "sessions": MEMORY_SESSIONS * MEMORY_POINT.session_bytes}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure_round(given: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    def add(kind: str, point: points.Point, figures: dict[str, float]) -> None:
        rows.append({"kind": kind, "point": vars(point), **figures})
        print(f"{kind:6} {point.name:55} {1e6 * figures['cpu_s']:9.1f} us of CPU,"
              f" {figures['per_second']:8.1f}/s", flush=True)

    folder = given.bin
    attn = folder / "attn"
    for kind, shapes, threads in (("step", points.step_points(), 1),
                                  ("bus", points.bus_points(), given.cores)):
        for point in shapes if kind in given.kinds else []:
            with served.AttnServer(folder, threads) as server:
                add(kind, point, patiently(
                    lambda seconds: measure_steps(attn, point, seconds, server),
                    given.seconds))
    for point in points.proxy_points() if "proxy" in given.kinds else []:
        with served.AttnServer(folder, 1) as server:
            with served.HaProxy(server.address, free_port()) as proxy:
                add("proxy", point, patiently(
                    lambda seconds: measure_steps(attn, point, seconds, server,
                                                  proxy), given.seconds))
    if "memory" in given.kinds:
        rows.append({"kind": "memory", **measure_memory(folder)})


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--raw", type=Path, help="every figure of every round")
    parser.add_argument("--from", dest="raws", default="",
                        help="such files: fit only, measure nothing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cores", type=int, default=served.cores())
    parser.add_argument("--name", default=processor())
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    rounds: list[list[dict[str, Any]]] = []
    for path in given.raws.split(",") if given.raws else []:
        rounds += json.loads(Path(path).read_text())
    for number in range(0 if given.raws else given.rounds):
        print(f"round {number + 1} of {given.rounds}", flush=True)
        rounds.append([])
        try:
            measure_round(given, rounds[-1])
        finally:
            if given.raw:
                given.raw.write_text(json.dumps(rounds, indent=1))
    if not given.raws and set(given.kinds.split(",")) != set(KINDS):
        return
    conditions = {"processor": processor(), "rounds": len(rounds),
                  "seconds": given.seconds}
    profile = fit.profile_of(rounds, given.cores, given.name, conditions)
    given.out.write_text(json.dumps(profile, indent=2) + "\n")
    print(fit.describe(profile))


if __name__ == "__main__":
    main()

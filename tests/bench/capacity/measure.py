#!/usr/bin/python3
"""Measures what steps of sessions cost here, and fits the machine's profile.

usage: measure.py BIN --out PROFILE.json [--raw FILE] [--rounds N]
                  [--seconds S] [--cores N] [--name NAME]

BIN holds attn and attn-server. Rounds are interleaved. What counts is CPU time
of the server, so that another program costs little; of the rounds the least, for
what disturbs only ever adds.
"""

import argparse
import json
import platform
import socket
from pathlib import Path
from typing import Any

import fit
import points
import served

MEMORY_POINT = points.Point(8, 8, 128, 1024, 1, "f32")
MEMORY_SESSIONS = 48
# So little that of resident memory the sessions' is the most.
MEMORY_FLAGS = (f"--max-inflight-bytes={64 << 20}",
                f"--max-message-bytes={16 << 20}",
                f"--max-transport-bytes={64 << 20}")


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
    before = served.take_sample(server, proxy)
    samples, report = served.run_load(
        attn, address, flags_of(point, seconds, point.sessions), server, proxy)
    begun = before.steps + point.prefill_steps
    end = max(sample.steps for sample in samples)
    while_read = [s for s in samples
                  if begun + 0.1 * (end - begun) < s.steps < end or s is samples[-1]]
    while_read = [s for s in while_read if s.received > 0]
    figures = {
        "cpu_s": slope(while_read, "server_cpu"),
        "proxy_cpu_s": slope(while_read, "proxy_cpu"),
        "received": slope(while_read, "received"),
        "sent": slope(while_read, "sent"),
        "per_second": report["achieved_rps"],
        "compute_s": report["server"]["compute_us"]["p50"] / 1e6,
    }
    filled = [s for s in samples if s.steps <= begun]
    if len(filled) > 1 and filled[-1].steps > before.steps:
        done = (filled[-1].steps - before.steps) / point.prefill_steps
        figures["prefill_cpu_s"] = (
            filled[-1].server_cpu - before.server_cpu) / done
    return figures


def measure_memory(folder: Path) -> dict[str, float]:
    with served.AttnServer(folder, 1, *MEMORY_FLAGS) as server:
        assert isinstance(server, served.AttnServer)
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


def measure_round(folder: Path, seconds: float, cores: int,
                  rows: list[dict[str, Any]]) -> None:
    def add(kind: str, point: points.Point, figures: dict[str, float]) -> None:
        rows.append({"kind": kind, "point": vars(point), **figures})
        print(f"{kind:6} {point.name:55} {1e6 * figures['cpu_s']:9.1f} us of CPU,"
              f" {figures['per_second']:8.1f}/s", flush=True)

    attn = folder / "attn"
    for point in points.step_points():
        with served.AttnServer(folder, 1) as server:
            assert isinstance(server, served.AttnServer)
            add("step", point, measure_steps(attn, point, seconds, server))
    for point in points.bus_points():
        with served.AttnServer(folder, cores) as server:
            assert isinstance(server, served.AttnServer)
            add("bus", point, measure_steps(attn, point, seconds, server))
    for point in points.proxy_points():
        with served.AttnServer(folder, 1) as server:
            assert isinstance(server, served.AttnServer)
            with served.HaProxy(server.address, free_port()) as proxy:
                assert isinstance(proxy, served.HaProxy)
                add("proxy", point,
                    measure_steps(attn, point, seconds, server, proxy))
    rows.append({"kind": "memory", **measure_memory(folder)})


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--raw", type=Path, help="every figure of every round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--cores", type=int, default=served.cores())
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    rounds: list[list[dict[str, Any]]] = []
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", flush=True)
        rounds.append([])
        try:
            measure_round(given.bin, given.seconds, given.cores, rounds[-1])
        finally:
            if given.raw:
                given.raw.write_text(json.dumps(rounds, indent=1))
    conditions = {"processor": processor(), "rounds": given.rounds,
                  "seconds": given.seconds}
    profile = fit.profile_of(rounds, given.cores, given.name or processor(),
                             conditions)
    given.out.write_text(json.dumps(profile, indent=2) + "\n")
    print(fit.describe(profile))


if __name__ == "__main__":
    main()

"""The machine's profile: least squares for what steps cost.

A call's CPU time is taken as a sum: a constant, one for each layer, one for each
byte of tensors, another for each of the first bytes, and for each type of keys and values one for each element that is
read and one for each multiply-add. Points that are held out of the fit tell how
well that predicts.
"""

import datetime
import statistics
from typing import Any

import numpy as np

from points import ELEMENT_BYTES, Point

Rows = list[dict[str, Any]]
COMMON = ("call", "layer", "payload_byte", "first_byte")
# A frame of HTTP/2: bytes of small messages cost more than those of large ones.
FIRST_BYTES = 16384


def columns() -> list[str]:
    names = list(COMMON)
    for kv_dtype in ELEMENT_BYTES:
        names += [f"{kv_dtype} element", f"{kv_dtype} multiply_add"]
    return names


def features(point: Point) -> list[float]:
    values = dict.fromkeys(columns(), 0.0)
    values["call"] = 1
    values["layer"] = point.layers
    values["payload_byte"] = sum(point.payload_bytes)
    values["first_byte"] = min(FIRST_BYTES, sum(point.payload_bytes))
    values[f"{point.kv_dtype} element"] = point.read_elements
    values[f"{point.kv_dtype} multiply_add"] = point.multiply_adds
    return list(values.values())


def least_squares(points: list[Point], seconds: list[float]) -> dict[str, float]:
    """Costs that are not negative, and whose relative errors are least."""
    weights = 1 / np.array(seconds)
    matrix = np.array([features(point) for point in points]) * weights[:, None]
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1
    left = [i for i in range(matrix.shape[1]) if matrix[:, i].any()]
    solution = np.zeros(matrix.shape[1])
    while left:
        part = np.linalg.lstsq(matrix[:, left] / scale[left],
                               np.ones(len(points)), rcond=None)[0]
        if (part >= 0).all():
            solution[left] = part / scale[left]
            break
        left.pop(int(np.argmin(part)))
    return dict(zip(columns(), solution.tolist()))


def predicted(costs: dict[str, float], point: Point) -> float:
    return float(np.dot(list(costs.values()), features(point)))


def quietest(rounds: list[Rows], kind: str, figure: str,
             largest: bool = False) -> list[tuple[Point, float]]:
    """Of all rounds the least, of each point."""
    found: dict[Point, list[float]] = {}
    for rows in rounds:
        for row in rows:
            if row["kind"] == kind and figure in row:
                found.setdefault(Point(**row["point"]), []).append(row[figure])
    choose = max if largest else min
    return [(point, choose(values)) for point, values in found.items()]


def median_of(rounds: list[Rows], kind: str, figure: str) -> dict[Point, float]:
    found: dict[Point, list[float]] = {}
    for rows in rounds:
        for row in rows:
            if row["kind"] == kind and figure in row:
                found.setdefault(Point(**row["point"]), []).append(row[figure])
    return {point: statistics.median(each) for point, each in found.items()}


def fit_proxy(rounds: list[Rows]) -> tuple[float, float, float]:
    """Of a call, of a byte, and the relative error at the point held out."""
    seconds = dict(quietest(rounds, "proxy", "proxy_cpu_s"))
    known = [p for p in seconds if not p.held_out]
    matrix = np.array([[1.0, sum(p.payload_bytes)] for p in known])
    weights = np.array([1 / seconds[p] for p in known])
    call, byte = np.linalg.lstsq(matrix * weights[:, None],
                                 np.ones(len(known)), rcond=None)[0].tolist()
    error = max(abs(call + byte * sum(p.payload_bytes) - s) / s
                for p, s in seconds.items() if p.held_out)
    return call, byte, error


def fit_prefill(rounds: list[Rows], costs: dict[str, float]) -> float:
    """Seconds of a multiply-add, where products are nearly all there is."""
    found = []
    for point, seconds in quietest(rounds, "step", "prefill_cpu_s"):
        beside = point.prefill_steps * (costs["call"] +
                                        point.layers * costs["layer"])
        if point.tokens >= 1024 and seconds > 10 * beside:
            found.append((seconds - beside) / point.prefill_multiply_adds)
    return statistics.median(found)


def headers(rounds: list[Rows], figure: str, way: int) -> float:
    """Bytes of a call beside its tensors."""
    return statistics.median(
        max(0.0, value - point.payload_bytes[way])
        for point, value in median_of(rounds, "step", figure).items()
        if point.layers == 1)


def spread(rounds: list[Rows], kind: str, figure: str) -> float:
    """Between rounds: the median of (most - least) / least."""
    least = dict(quietest(rounds, kind, figure))
    most = dict(quietest(rounds, kind, figure, largest=True))
    return statistics.median(most[p] / least[p] - 1 for p in least)


def profile_of(rounds: list[Rows], cores: int, name: str,
               conditions: dict[str, Any]) -> dict[str, Any]:
    steps = quietest(rounds, "step", "cpu_s")
    known = [(p, s) for p, s in steps if not p.held_out]
    costs = least_squares([p for p, _ in known], [s for _, s in known])
    proxy_call, proxy_byte, proxy_error = fit_proxy(rounds)
    # CPU time has in it that cores wait for memory while others read it.
    bus = cores * max(point.read_bytes / seconds for point, seconds in
                      quietest(rounds, "bus", "cpu_s"))
    memory = [row for rows in rounds for row in rows if row["kind"] == "memory"]
    errors = {p.name: [predicted(costs, p) / s - 1, p.held_out]
              for p, s in steps}
    return {
        "name": name,
        "measured": datetime.date.today().isoformat(),
        "conditions": conditions,
        "cores": cores,
        "call_seconds": costs["call"],
        "layer_seconds": costs["layer"],
        "payload_byte_seconds": costs["payload_byte"],
        "first_byte_seconds": costs["first_byte"],
        "read": {dtype: {
            "element_seconds": costs[f"{dtype} element"],
            "multiply_add_seconds": costs[f"{dtype} multiply_add"]}
            for dtype in ELEMENT_BYTES},
        "prefill_multiply_add_seconds": fit_prefill(rounds, costs),
        "bus_bytes_per_second": bus,
        "service_variation": spread(rounds, "step", "cpu_s") ** 2,
        "base_bytes": min(row["idle"] for row in memory),
        "header_bytes_in": headers(rounds, "received", 0),
        "header_bytes_out": headers(rounds, "sent", 1),
        "proxy_call_seconds": proxy_call,
        "proxy_byte_seconds": proxy_byte,
        "residuals": {
            "worst_fitted": max(abs(e) for e, out in errors.values() if not out),
            "worst_held_out": max(abs(e) for e, out in errors.values() if out),
            "proxy_held_out": proxy_error,
            "spread_between_rounds": spread(rounds, "step", "cpu_s"),
            "resident_beside_sessions": max(
                (row["full"] - row["idle"]) / row["sessions"] for row in memory),
            "points": {point: error for point, (error, _) in errors.items()}},
        "steps": [{"point": p.name, "cpu_seconds": s, "held_out": p.held_out}
                  for p, s in steps],
    }


def describe(profile: dict[str, Any]) -> str:
    residuals = profile["residuals"]
    return (f"worst error of the fit {100 * residuals['worst_fitted']:.1f} %, of "
            f"points held out {100 * residuals['worst_held_out']:.1f} %, of the "
            f"proxy's {100 * residuals['proxy_held_out']:.1f} %; between rounds "
            f"{100 * residuals['spread_between_rounds']:.1f} %")

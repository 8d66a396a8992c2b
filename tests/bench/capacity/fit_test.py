#!/usr/bin/python3
"""The fit finds the costs that measured times were made of."""

import unittest
from typing import Any

import fit
import points


def made_of(costs: dict[str, float], factor: float = 1.0) -> fit.Rows:
    rows: fit.Rows = []
    for point in points.step_points():
        rows.append({"kind": "step", "point": vars(point),
                     "cpu_s": factor * fit.predicted(costs, point),
                     "received": point.payload_bytes[0] + 170.0,
                     "sent": point.payload_bytes[1] + 190.0,
                     "prefill_cpu_s": point.prefill_multiply_adds * 3e-11 +
                     point.prefill_steps * (costs["call"] +
                                            point.layers * costs["layer"])})
    for point in points.bus_points():
        rows.append({"kind": "bus", "point": vars(point),
                     "cpu_s": point.read_bytes / 5e9})
    for point in points.proxy_points():
        rows.append({"kind": "proxy", "point": vars(point),
                     "proxy_cpu_s": 5e-5 + 1e-9 * sum(point.payload_bytes)})
    rows.append({"kind": "memory", "idle": 3e7, "full": 5e8, "sessions": 4e8})
    return rows


def some_costs() -> dict[str, float]:
    costs = dict.fromkeys(fit.columns(), 0.0)
    costs |= {"call": 1e-4, "layer": 2e-5, "payload_byte": 1e-9,
              "first_byte": 5e-9}
    for number, name in enumerate(fit.columns()[len(fit.COMMON):]):
        costs[name] = (1 + number) * (1e-10 if "element" in name else 1e-11)
    return costs


class FitTest(unittest.TestCase):
    def profile(self, *rounds: fit.Rows) -> dict[str, Any]:
        return fit.profile_of(list(rounds), 2, "made up", {})

    def test_costs_are_found(self) -> None:
        costs = some_costs()
        profile = self.profile(made_of(costs))
        self.assertAlmostEqual(profile["call_seconds"] / 1e-4, 1, 6)
        self.assertAlmostEqual(profile["layer_seconds"] / 2e-5, 1, 6)
        self.assertAlmostEqual(profile["payload_byte_seconds"] / 1e-9, 1, 6)
        self.assertAlmostEqual(profile["first_byte_seconds"] / 5e-9, 1, 6)
        for dtype in points.ELEMENT_BYTES:
            read = profile["read"][dtype]
            for kind in ("element", "multiply_add"):
                self.assertAlmostEqual(
                    read[f"{kind}_seconds"] / costs[f"{dtype} {kind}"], 1, 6)
        self.assertLess(profile["residuals"]["worst_held_out"], 1e-6)

    def test_the_rest_is_found(self) -> None:
        profile = self.profile(made_of(some_costs()))
        self.assertAlmostEqual(profile["bus_bytes_per_second"] / 1e10, 1, 9)
        self.assertAlmostEqual(profile["proxy_call_seconds"] / 5e-5, 1, 6)
        self.assertAlmostEqual(profile["proxy_byte_seconds"] / 1e-9, 1, 6)
        self.assertAlmostEqual(
            profile["prefill_multiply_add_seconds"] / 3e-11, 1, 6)
        self.assertEqual(profile["header_bytes_in"], 170)
        self.assertEqual(profile["header_bytes_out"], 190)
        self.assertEqual(profile["base_bytes"], 3e7)

    def test_the_quietest_round_counts(self) -> None:
        costs = some_costs()
        profile = self.profile(made_of(costs, 1.2), made_of(costs))
        self.assertAlmostEqual(profile["call_seconds"] / 1e-4, 1, 6)
        self.assertAlmostEqual(
            profile["residuals"]["spread_between_rounds"], 0.2, 6)

    def test_no_cost_is_negative(self) -> None:
        costs = some_costs()
        costs["layer"] = -1e-6
        profile = self.profile(made_of(costs))
        self.assertEqual(profile["layer_seconds"], 0)
        self.assertGreater(profile["residuals"]["worst_fitted"], 0)

    def test_points_count_what_calls_read(self) -> None:
        point = points.Point(32, 8, 128, 4096, 2, "int8", "bf16")
        self.assertEqual(point.read_elements, 2 * 8 * 4096 * 256)
        self.assertEqual(point.read_bytes, 2 * 8 * 4096 * (256 + 8))
        self.assertEqual(point.multiply_adds, 2 * 32 * 4096 * 256)
        self.assertEqual(point.payload_bytes,
                         (2 * 48 * 128 * 2, 2 * 32 * 128 * 2))
        self.assertEqual(point.prefill_steps, point.sessions * 8)


if __name__ == "__main__":
    unittest.main()

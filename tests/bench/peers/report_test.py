#!/usr/bin/env python3
"""What report.py makes of measurements, by hand-made figures."""

import contextlib
import io
import os
import tempfile
import unittest

import report
import shapes

MEASURED = """\
limit,fma,1,170.0,176.0
limit,exp,1,9.0,9.5
limit,read:33554432,1,20.0,28.0
# torch flash p512: a remark
attn,p512,f32,1,5.00000,4.00000,9,flash
attn,p512,f32,1,4.50000,4.20000,9,flash
attn,p512,bf16,1,5.00000,4.40000,9,flash
torch-flash,p512,f32,1,6.00000,5.00000,9
ort-mha,p512,f32,1,5.50000,5.20000,9,1.0e-07
ort-mha,p512,f32,1,5.60000,4.80000,9,1.0e-07
attn,dec4k,f32,1,1.5,1.4,9,decode
attn,back512,f32,1,20.0,16.0,9,backward
torch-autograd,back512,f32,1,26.0,24.0,9
torch-backward-only,back512,f32,1,18.0,15.0,9
memory,mem32k,f32,1,12.5
"""


class ReportTest(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv",
                                         delete=False) as stream:
            stream.write(MEASURED)
        self.addCleanup(os.remove, stream.name)
        self.measured = report.Measured(stream.name)
        self.rows = {(row["shape"], row["dtype"]): row
                     for row in report.rows_of(self.measured)}

    def test_the_quietest_window_of_all_rounds_counts(self):
        row = self.rows["p512", "f32"]
        self.assertEqual(row["ours_ms"], 4.0)
        self.assertEqual(row["best_peer"], "ort-mha")
        self.assertAlmostEqual(row["ratio"], 4.8 / 4.0)

    def test_the_medians_are_those_of_the_rounds(self):
        row = self.rows["p512", "f32"]
        self.assertEqual(row["ours_median_ms"], 4.75)
        self.assertEqual(row["peers_median_ms"]["ort-mha"], 5.55)

    def test_a_prefill_is_bound_by_multiply_adds_and_exponentials(self):
        # 4 * 8 heads * 512 * 512 * 64 and 8 * 512 * 512.
        self.assertAlmostEqual(self.rows["p512", "f32"]["limit_ms"],
                               536.870912 / 176 + 2.097152 / 9.5)

    def test_a_decode_is_bound_by_its_bytes(self):
        # 2 * 8 heads * 4096 * 128 floats.
        self.assertAlmostEqual(self.rows["dec4k", "f32"]["limit_ms"],
                               33.554432 / 28)

    def test_what_does_less_than_our_call_is_not_ranked(self):
        row = self.rows["back512", "f32"]
        self.assertEqual(row["best_peer"], "torch-autograd")
        self.assertAlmostEqual(row["ratio"], 1.5)
        self.assertEqual(row["compared_with"], "p512")
        self.assertAlmostEqual(row["times_that"], 4.0)

    def test_narrow_types_are_compared_with_f32(self):
        self.assertAlmostEqual(self.rows["p512", "bf16"]["times_f32"], 1.1)
        self.assertIsNone(self.rows["p512", "bf16"]["ratio"])

    def test_only_visible_keys_are_work(self):
        by_name = {shape.name: shape for shape in shapes.read_shapes()}
        self.assertEqual(report.visible_keys(by_name["p512c"]),
                         512 * 513 // 2)
        self.assertEqual(report.visible_keys(by_name["w4096"]),
                         256 * 257 // 2 + (4096 - 256) * 256)
        lengths = [128, 119, 110, 101, 92, 83, 74, 65]
        self.assertEqual(report.visible_keys(by_name["pad128"]),
                         sum(length ** 2 for length in lengths))

    def test_markdown_has_as_many_cells_in_each_line(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            report.print_table(list(self.rows.values()), self.measured, True)
        lines = [line for line in text.getvalue().splitlines()
                 if line.startswith("|")]
        self.assertEqual(len(lines), 2 + len(self.rows))
        self.assertEqual({line.count("|") for line in lines},
                         {len(report.HEADER) + 1})


if __name__ == "__main__":
    unittest.main()

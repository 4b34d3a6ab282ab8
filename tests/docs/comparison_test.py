"""Tests of comparison.py: what may differ between a document and a command, and what is noticed."""

import unittest

from comparison import same


class Comparison(unittest.TestCase):
    def test_what_depends_on_machine_and_moment_may_differ(self):
        for shown, printed in (
            ("all in 585 ms", "all in 1.2 ms"),
            ("a.pt2: 180.8 kB, 2 nodes", "a.pt2: 99.0 kB, 2 nodes"),
            ("sum -0.320458  checksum f0ae1374c773", "sum 1.5  checksum 123456789012"),
            ("kiln_4b7b368e481bf39e aten.addmm.default", "kiln_1111111111111111 aten.addmm.default"),
            ("6399 answers, 0 of a mixture", "17 answers, 0 of a mixture"),
            ("(7297 calls)", "(3 calls)"),
            ("loss 11.543920", "loss 11.127007"),
            ("difference: 1.3e-07", "difference: 2.0e-08"),
            ("a  b", "a b"),
        ):
            with self.subTest(shown):
                self.assertTrue(same(printed, shown))

    def test_everything_else_is_noticed(self):
        for shown, printed in (
            ("200 requests, 0 of them wrong", "200 requests, 7 of them wrong"),
            ("6399 answers, 0 of a mixture", "6399 answers, 1 of a mixture"),
            ("6399 answers, 0 of a mixture", "0 answers, 0 of a mixture"),
            ("2 nodes: 3 kernels", "2 nodes: 4 kernels"),
            ("loss 404.229462", "loss 312.229462"),
            ("difference: 1.3e-07", "difference: 1.3e-01"),
            ("f32[1, 10]", "f32[10, 1]"),
            ("0.weight  65.5 kB", "0.weight  32.7 kB"),
            ("67 % of the time", "12 % of the time"),
            ("as eager", "not as eager"),
            ("1.5", "1.5 2.5"),
        ):
            with self.subTest(shown):
                self.assertFalse(same(printed, shown))


if __name__ == "__main__":
    unittest.main()

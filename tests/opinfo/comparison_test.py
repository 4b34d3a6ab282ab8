#!/usr/bin/env python3
"""The comparison with eager finds what is wrong, and lets pass what only rounds otherwise."""

import types

import torch

from comparison import difference

CASE = types.SimpleNamespace(op=types.SimpleNamespace(name="sum"), inputs=[])
half = lambda *numbers: torch.tensor(numbers, dtype=torch.float16)  # noqa: E731
wide = lambda *numbers: torch.tensor(numbers, dtype=torch.float64)  # noqa: E731


def verdict(found, wanted, reference):
    return difference(CASE, [wanted], [found], lambda: [reference])


def main():
    right = wide(1.0, 5.5)
    # Not as eager, but nearer to the truth; a number where eager overflows.
    assert verdict(half(1.0, 5.5), half(1.0, 5.6), right) is None
    assert verdict(half(1.0, 5.5), half(1.0, float("inf")), right) is None
    # Further from it than eager; a wrong number where eager overflows; no number where eager has one.
    assert verdict(half(1.0, 5.8), half(1.0, 5.6), right)
    assert verdict(half(1.0, 5.8), half(1.0, float("inf")), right)
    assert verdict(half(1.0, float("nan")), half(1.0, 5.6), right)
    assert verdict(half(1.0, float("inf")), half(1.0, float("nan")), wide(1.0, float("nan")))
    # A wide result of a narrow operand is as exact as that; of a wide one it is exact.
    narrow = types.SimpleNamespace(op=CASE.op, inputs=[torch.ones(2)])
    assert difference(narrow, [wide(1.0, 5.5)], [wide(1.0, 5.500002)], lambda: [right]) is None
    assert difference(narrow, [wide(1.0, 5.5)], [wide(1.0, 5.6)], lambda: [right])
    assert verdict(wide(1.0, 5.500002), wide(1.0, 5.5), right)
    # Types and shapes; integers to the last one; results that are missing.
    assert verdict(wide(1.0, 5.5), half(1.0, 5.5), right)
    assert verdict(half(1.0), half(1.0, 5.5), right)
    assert "3 instead of 4 at (0,)" in verdict(torch.tensor([3]), torch.tensor([4]), None)
    assert difference(CASE, [None], [right], None) and difference(CASE, [right], [None], None)
    assert difference(CASE, [right], [], None)
    # Strides, but not those of gradients, and none of dimensions of one place.
    square = torch.arange(4.0).reshape(2, 2)
    turned = square.t().contiguous().t()
    assert verdict(turned, square, square) and difference(CASE, [square], [turned], None, returned=0) is None
    assert verdict(square[:1], square[:1].clone().as_strided((1, 2), (7, 1)), None) is None


if __name__ == "__main__":
    main()

"""Where rounding, overflow and what is no number show."""

import math

import torch
from torch.nn import functional as F

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def row(values, dtype=torch.float32):
    """Long enough for vectors and what is left over."""
    return torch.tensor(values * 9, dtype=dtype)


def differences_of_products(x, y):
    """Nothing, where x is y: if the second product were not rounded, what the first one was would be left."""
    return x * x - y * y == 0, x * 0.1 + -(y * 0.1) == 0, x.sigmoid() * x - y.sigmoid() * y == 0, (x * y).view(3, -1).t() - (y * y).view(3, -1).t() == 0


def half_beside_numbers(dtype):
    """ATen makes elements of numbers, single numbers and integers first; a factor alone keeps its digits."""
    def compared(x, single, integers):
        return x > 0.3, x == 0.3, x <= 0.7, x == 2049, x == single, x < integers, x == integers

    def added(x, single, integers):
        return x + 0.3, x - 0.3, 0.3 - x, x + single, x + integers, x - integers, torch.add(x, integers, alpha=2)

    def multiplied(x, single, integers):
        return x * 0.3, x / 0.3, x * single, x / single, single * x, x * integers, x / integers

    def raised(x, single, integers):
        return x.abs() ** 0.3, torch.pow(0.3, x), torch.pow(x.abs(), single), torch.pow(x.abs() / 9999, integers)

    def chosen(x, single, integers):
        return (torch.where(x > 1, x, 0.3) - x, x.masked_fill(x > 1, 0.3) - x, F.hardtanh(x, -0.3, 0.3) - x,
                torch.full_like(x, 0.3) - x, x.clamp(0.1, 0.7) - x, torch.maximum(x, single) - x,
                F.pad(x, (2, 1), value=0.3) - 0.5)

    def multiplied_by_one(x, single, integers):
        return x * integers[:1], x / integers[:1], x * integers.to(torch.uint8), x + integers.to(torch.bool)

    inputs = (row([0.1, 0.3, 0.7, 2048.0, 5.0, -0.3], dtype), torch.tensor(0.3), row([2049, 3, 100000, 5, 257, 1], torch.int64))
    functions = {"compared": compared, "added": added, "multiplied": multiplied, "raised": raised, "chosen": chosen,
                 "multiplied by one integer": multiplied_by_one}
    return {f"half beside numbers, {name}, {dtype}": (function, inputs) for name, function in functions.items()}


def shrunk(x, g):
    return F.hardshrink(x, 0.3), aten.hardshrink_backward(g, x, 0.3), aten.softshrink_backward(g, x, 0.3), F.softshrink(x, 0.3)


def programs():
    one = torch.tensor([[1e30], [1e-30], [-3.0]])
    powers_of_two = row([2.0**k for k in (-140, -62, -31, -15, -13, 3, 13, 15, 26, 31, 62, 125)])
    made = {
        "log2 of powers of two": (lambda x: (torch.log2(x), torch.floor(torch.log2(x))), (powers_of_two,)),
        "log10 of powers of ten": (lambda x: (torch.log10(x), torch.ceil(torch.log10(x))),
                                   (row([10.0**k for k in (1, 2, 3, 5, 9, 13, 18, 25, 26, 29, 36)]),)),
        "logarithms of what has none": (lambda x: (torch.log2(x), torch.log10(x)),
                                        (row([0.0, -0.0, -1.0, math.inf, -math.inf, math.nan, 1.0, 1e-45]),)),
        "norms of one element": (lambda x: (torch.linalg.vector_norm(x, dim=1), torch.linalg.vector_norm(x, 3, dim=1),
                                            torch.linalg.vector_norm(x, 0, dim=1), aten.norm.ScalarOpt_dim(x, 2, [1], False),
                                            torch.linalg.vector_norm(x, -2, dim=1)), (one,)),
        "renorm of one element": (lambda x: torch.renorm(x, 2, 0, 1.0), (one,)),
        "sums of elements made half": (lambda x: (x.sum(dtype=torch.half), x.sum(0, dtype=torch.half), x.prod(dtype=torch.half)),
                                       (torch.tensor([70000.0, -70000.0, 1.0]),)),
        "a mean in half is not of halves": (lambda x: x.mean(dtype=torch.half), (torch.tensor([70000.0, 1.0, 1.0, 1.0]),)),
        "nll_loss, infinite weight of what is ignored": (
            lambda x, t, w: F.nll_loss(x, t, weight=w),
            (-torch.ones(3, 2), torch.tensor([1, -100, 1]), torch.tensor([math.inf, 1.0]))),
        "smooth_l1_loss, tiny beta": (lambda x, y: F.smooth_l1_loss(x, y, beta=1e-39, reduction="none"),
                                      (row([1.0, 2.0]), row([1.0, 3.0]))),
        "logit, bounds that change places": (lambda x: torch.logit(x, eps=0.7), (torch.tensor([0.5, 0.1, 0.9, math.nan]),)),
        "bounds that are no number": (lambda x: (x.clamp(math.nan, 3), x.clamp(0, math.nan), F.hardtanh(x, math.nan, 3.0)),
                                      (row([1.0, 2.0, -1.0]),)),
        "products are rounded before they are added": (differences_of_products, (row([0.1, 1.7, -3.3]), row([0.1, 1.7, -3.3]))),
        "and those of doubles": (differences_of_products, (row([0.1, 1.7], torch.float64), row([0.1, 1.7], torch.float64))),
        "running sums of elements made half": (
            lambda x, y: (x.half().cumsum(0), x.half().cumprod(0), y.half().cumsum(0), y.bfloat16().cumsum(1)),
            (torch.tensor([70000.0, -70000.0, 1e-3, 2.0]), torch.tensor([[70000.0] * 40, [-70000.0] * 40, [1.0] * 40]))),
        "parts made half": (
            lambda h, i, f: (torch.cat([h, i]) * 0.5, torch.cat([i, h]) - 2048, torch.select_scatter(h, f[0], 0, 0) * 0.5,
                             torch.slice_scatter(h, f[:1], 0, 0, 1) * 0.5),
            (torch.tensor([1.0, 3.0]).half(), torch.tensor([100000, 2049]), torch.tensor([100000.0, 1.0]))),
        "complex numbers beside doubles": (
            lambda z, x: (z == (0.1 + 0.2j), z != (0.1 + 0.2j), x == (0.1 + 0j)),
            (torch.tensor([0.1 + 0.2j, 1 + 1j], dtype=torch.complex128), torch.tensor([0.1, 2.0], dtype=torch.float64))),
        "a gradient of embeddings beside -0": (
            lambda x, g, i: (x + aten.embedding_dense_backward(g, i, 4, -1, False), aten.embedding_dense_backward(g, i, 4, -1, False) + x),
            (torch.full((4, 3), -0.0), torch.ones(2, 3), torch.tensor([0, 2]))),
        "a stack of several types": (
            lambda i, f, h, b: (torch.stack([i.sum(), f.sum()]), torch.stack([h, f]), torch.stack([b, i], 1)),
            (torch.tensor([1, 500]), torch.tensor([0.3, 70000.0]), torch.tensor([1.0, 2.0]).half(), torch.tensor([True, False]))),
        "slope of smooth_l1_loss": (
            lambda g, x, y: (aten.smooth_l1_loss_backward(g, x, y, 0, 1.0), aten.smooth_l1_loss_backward(g, x, y, 0, 0.0)),
            (row([1.0, 1.0, 1.0, 2.0]), row([math.nan, 0.5, -3.0, 1.0]), row([0.0, 0.0, 0.0, 1.0]))),
        "quotients of integers, out=": (
            lambda x, y: (torch.div(x, y, out=torch.empty(3)), torch.atan2(x, y, out=torch.empty(3)),
                          torch.div(x, y, rounding_mode="floor", out=torch.empty(3, dtype=torch.int64))),
            (torch.tensor([1, 7, -7]), torch.tensor([2, 2, 2]))),
        "integers wrap": (lambda x: ((x + 1) > x, (-x) < 0, x.abs() < 0, (x * 2) == 0),
                          (row([2**31 - 1, -2**31, 5, -3], torch.int32),)),
        "negative numbers to uint8": (lambda x: x.to(torch.uint8), (row([-1.0, -300.5, 300.0, 255.9, -0.9]),)),
    }
    for dtype in HALVES:
        made.update(half_beside_numbers(dtype))
        made[f"shrinking, {dtype}"] = (shrunk, (row([0.1, 0.3, 0.7, -0.3], dtype), row([1.0, 1.0, 1.0, 1.0], dtype)))
    return made

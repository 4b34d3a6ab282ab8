"""Programs whose sizes vary, named after PyTorch's tests of them.

A case says how its inputs follow from sizes, which sizes may vary and how far. `at` are sizes that
PyTorch's test uses, or that matter; others are drawn.
"""

import dataclasses
import math
from typing import Any, Callable

import numpy
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F


@dataclasses.dataclass
class Case:
    module: nn.Module
    inputs: Callable[..., tuple]  # Sizes by name to arguments: tensors, and integers that vary.
    dims: Any  # torch.export's dynamic_shapes.
    ranges: dict  # Name to the smallest and largest size.
    example: dict  # Sizes at which it is exported.
    at: tuple = ()  # More sizes to run at.
    refused: tuple = ()  # Arguments that the package refuses, each with the message.
    fixed: tuple = ()  # Inputs and dimensions that are reported as fixed; None for an integer.
    may_be_fixed: bool = False  # Sizes need not vary as far as they may, if the report says why.
    most: float = math.inf  # The largest product of all sizes that is run.
    small: bool = True  # Inputs are written to files for Kiln's runner.
    exact: bool = False  # Results in double must be the module's to the last bit.


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Linear(nn.Module):
    """A layer and what the test puts around it."""

    def __init__(self, width, out, after=lambda x: x):
        super().__init__()
        self.layer, self.after = nn.Linear(width, out), after

    def forward(self, x):
        return self.after(self.layer(x))


class Guarded(nn.Module):
    """A branch on a size, beside a weight that is computed with."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return (x * 2 if x.shape[0] % 24 == 0 else x * 3) + (self.weight * 2 + 1).sum()


class Weighted(nn.Module):
    """A weight times a size is another one at each size; so is what is clamped by one."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        sized = x + self.weight * x.size(0)
        shared = x + self.weight * (1.0 / x.size(0))
        return sized.clamp(max=x.size(0)), torch.add(x, self.weight, alpha=x.size(0)), shared


class Scaled(nn.Module):
    """Numbers as eager computes them, to the last bit: a tensor of double shows it."""

    def forward(self, x):
        n = x.size(0)
        ones = torch.ones(1, dtype=torch.float64)
        numbers = (1.0 / n, n * 0.3, n / 3, 0.1 / (n - 1), torch.sym_sqrt(n), 1.0 / torch.sym_sqrt(n), n * 0.3 + 1.5,
                   (n - 1) / n * 0.7, n * 0.1 * 3)
        return x * (1.0 / n), *(ones * number for number in numbers)


def decoded(x, cache, position):
    """Attends to what a cache has up to a position, and returns what is there."""
    torch._check(position >= 0)
    torch._check(position < cache.shape[1])
    seen = cache.narrow(1, 0, position + 1)
    weights = (seen @ x.unsqueeze(-1)).squeeze(-1).softmax(-1)
    return (weights.unsqueeze(1) @ seen).squeeze(1) + position, cache.select(1, position), 2 * position + 1


def by_hand(x):
    """A mean and a standard deviation along the size that varies."""
    mean = x.sum(0) * (1.0 / x.size(0))
    return mean, (((x - mean) ** 2).sum(0) * (1.0 / (x.size(0) - 1))).sqrt()


def one(name, *shape, low=1, high=512, example=8, **more):
    """A case of one input in which 'n' stands for the size that varies."""
    position = shape.index("n")

    def inputs(n):
        return (torch.randn([n if size == "n" else size for size in shape]),)

    return dict(inputs=inputs, dims=({position: Dim(name, min=low, max=high)},),
                ranges={"n": (low, high)}, example={"n": example}, **more)


def two_rows(n, **_):
    return torch.randn(n, 16), torch.randn(n, 16)


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool)


def of_each_type(n):
    """test_runtime_checks: a tensor of each type, one of them with strides of its own."""
    made = [torch.randint(0, 2, (n, 3, 4)).to(dtype) for dtype in DTYPES]
    made[1] = torch.randn(n, 4, 3, dtype=torch.float64).transpose(1, 2)
    return tuple(made)


def instead(position, tensor):
    """Such tensors with another one among them."""
    made = list(of_each_type(5))
    made[position] = tensor
    return tuple(made)


def mostly_zeros(n):
    """More elements than 31 bits count, of memory that is not touched."""
    made = torch.from_numpy(numpy.zeros((n, 1 << 16), numpy.uint8))
    made[0, 0], made[-1, -1], made[n // 2, 7] = 3, 5, 7
    return (made,)


def attention_after_reshape(x):
    heads = x.reshape(x.size(0), -1, 4, 8).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads)


def reshaped_product(x, y):
    """test_reuse_kernel_dynamic: a size times six, permuted, multiplied."""
    rows = x.reshape(-1, 6, 8).permute(1, 0, 2)
    return torch.bmm(rows, y.reshape(6, 8, 4)) + rows.sum(2, keepdim=True)


def cases():
    batch = Dim("batch", min=1, max=512)
    a, b = Dim("a", min=1, max=100), Dim("b", min=1, max=100)
    rows, columns = Dim("rows", min=1, max=64), Dim("columns", min=2, max=64)
    half = Dim("half", min=2, max=64)
    height, width = Dim("height", min=4, max=60), Dim("width", min=4, max=60)
    made = {}
    made["DS-01 test_simple_dynamic"] = Case(
        Function(lambda x, y: torch.relu(x @ y.t()) + x.mean()), two_rows, ({0: batch}, {0: batch}),
        {"n": (1, 512)}, {"n": 8}, at=({"n": 1}, {"n": 33}))
    any_size, any_size_of_one = {0: Dim.AUTO}, ({0: Dim.AUTO},)
    made["a guard: even"] = Case(
        Function(lambda x: x * 2 if x.shape[0] % 2 == 0 else x * 3), lambda n: (torch.randn(2 * n),), (any_size,),
        {"n": (2, 100)}, {"n": 3}, at=({"n": 7},),
        refused=(((torch.randn(5),),
                 "the program was traced for sizes with 'Mod(s0, 2) == 0', "
                 "but 's0' is 5 (input 0 'inputs_0', dimension 0)"),))
    made["a guard: not six"] = Case(
        Function(lambda x: x * 2 if x.shape[0] != 6 else x * 3), lambda n: (torch.randn(n),), (any_size,),
        {"n": (7, 100)}, {"n": 9},
        refused=(((torch.randn(6),),
                 "the program was traced for sizes with 's0 != 6', but 's0' is 6 (input 0 'inputs_0', dimension 0)"),))
    made["a guard: more than the other"] = Case(
        Function(lambda x, y: x * 2 if x.shape[0] > y.shape[0] else x * 3),
        lambda n: (torch.randn(n + 1), torch.randn(n)), (any_size, any_size), {"n": (2, 100)}, {"n": 5},
        refused=(((torch.randn(4), torch.randn(6)),
                 "the program was traced for sizes with 's0 < s1', "
                 "but 's1' is 4 (input 0 'inputs_0', dimension 0) and 's0' is 6 (input 1 'inputs_1', dimension 0)"),
                 ((torch.randn(5), torch.randn(5)),
                  "the program was traced for sizes with 's0 < s1', "
                  "but 's1' is 5 (input 0 'inputs_0', dimension 0) and 's0' is 5 (input 1 'inputs_1', dimension 0)")))
    both_vary = ({0: Dim.AUTO}, {0: Dim.AUTO})
    is_equal = Function(lambda x, y: x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum() - y.sum())
    made["a guard: equal to the other"] = Case(
        is_equal, lambda n: (torch.randn(n), torch.randn(n)), both_vary, {"n": (2, 100)}, {"n": 5},
        refused=(((torch.randn(4), torch.randn(6)),
                 "input 1 'inputs_1', dimension 0: 6, but 's0' is 4 (input 0 'inputs_0', dimension 0)"),))
    made["a guard: not equal to the other"] = Case(
        is_equal, lambda n, more: (torch.randn(n), torch.randn(n + more)), both_vary,
        {"n": (2, 100), "more": (1, 100)}, {"n": 5, "more": 2},
        refused=(((torch.randn(6), torch.randn(6)),
                 "the program was traced for sizes with 's0 != s1', "
                 "but 's0' is 6 (input 0 'inputs_0', dimension 0) and 's1' is 6 (input 1 'inputs_1', dimension 0)"),))
    made["a guard: one declared size not equal to another"] = Case(
        Function(lambda x, y: x.sum() + y if x.shape[0] == y.shape[1] else x.sum() - y),
        lambda n, more: (torch.randn(n + more, 3), torch.randn(3, n)), ({0: a}, {1: b}),
        {"n": (1, 50), "more": (1, 50)}, {"n": 5, "more": 2},
        refused=(((torch.randn(6, 3), torch.randn(3, 6)),
                 "the program was traced for sizes with 's0 != s1', "
                 "but 's0' is 6 (input 0 'inputs_0', dimension 0) and 's1' is 6 (input 1 'inputs_1', dimension 1)"),
                 ((torch.randn(101, 3), torch.randn(3, 6)), "input 0 'inputs_0', dimension 0: 's0' is 101, must be 1 … 100")))
    made["a guard that is no relation of integers"] = Case(
        Function(lambda x: x * 2 if int(x.shape[0] * 0.5) == 3 else x * 3), lambda n: (torch.randn(6),), (any_size,),
        {"n": (6, 6)}, {"n": 6}, fixed=(("inputs_0", 0),),
        refused=(((torch.randn(9),),
                 "input 0 'inputs_0': expected sizes [6], but got [9]"),))
    made["a guard with a weight, and few sizes that keep it"] = Case(
        Guarded(), lambda n: (torch.randn(24 * n),), any_size_of_one, {"n": (1, 5)}, {"n": 2},
        refused=(((torch.randn(25),),
                 "the program was traced for sizes with 'Mod(s0, 24) == 0', "
                 "but 's0' is 25 (input 0 'x', dimension 0)"),))
    made["bits of a size"] = Case(
        Function(lambda x: x * (x.shape[0] & 6) + (x.shape[0] | 1)), lambda n: (torch.randn(7),),
        (any_size,), {"n": (7, 7)}, {"n": 7}, fixed=(("inputs_0", 0),))
    made["what counts down, divided by a size"] = Case(
        Function(lambda x: x.transpose(1, 2).flatten(1).flip(1) * 2), **one("n", 2, "n", 6, at=({"n": 1}, {"n": 33})))
    made["what counts down by a size, divided"] = Case(
        Function(lambda x: x.t().reshape(4, x.shape[1]).flip([0]) + 1), lambda n: (torch.randn(4, 2 * n + 1),),
        ({1: Dim.AUTO},), {"n": (2, 50)}, {"n": 3}, at=({"n": 13},))
    made["DS-02 test_poi_multiple_dynamic"] = Case(
        Function(lambda x, y: (x + y).sin() * x), two_rows, ({0: batch}, {0: batch}),
        {"n": (1, 512)}, {"n": 128}, at=({"n": 128}, {"n": 64}, {"n": 211}))
    made["DS-03 test_foreach_multiple_dynamic"] = Case(
        Function(lambda x, y: torch.cat([t.unsqueeze(1) for t in torch._foreach_add([x, y], 1)], 1)),
        two_rows, ({0: batch}, {0: batch}), {"n": (1, 512)}, {"n": 128},
        at=({"n": 64}, {"n": 211}))
    made["DS-04 test_dynamic_cat"] = Case(
        Function(lambda x, y: torch.cat([x, y], 0) * 2),
        lambda a, b: (torch.randn(a, 4), torch.randn(b, 4)), ({0: a}, {0: b}),
        {"a": (1, 100), "b": (1, 100)}, {"a": 2, "b": 3}, at=({"a": 5, "b": 5},))
    made["DS-05 test_addmm_multiple_dynamic"] = Case(
        Linear(12, 6, torch.relu), **one("n", 2, "n", 12, high=2048, at=({"n": 2}, {"n": 2048}, {"n": 128})))
    made["DS-06 test_bmm_multiple_dynamic"] = Case(
        Function(lambda x, y: torch.bmm(x, y) + 1),
        lambda n: (torch.randn(n, 5, 7), torch.randn(n, 7, 3)), ({0: batch}, {0: batch}),
        {"n": (1, 512)}, {"n": 16}, at=({"n": 1}, {"n": 48}))
    made["DS-07 test_linear_dynamic_maxautotune"] = Case(
        Linear(64, 1024), **one("n", "n", 64, high=2048, example=2048,
                                at=({"n": 10}, {"n": 16}, {"n": 100})))
    made["DS-08 test_reuse_kernel_dynamic"] = Case(
        Function(reshaped_product), lambda n: (torch.randn(n * 6, 8), torch.randn(6, 32)),
        ({0: 6 * half}, None), {"n": (2, 64)}, {"n": 4})
    made["DS-09 test_shifted_constraint_ranges"] = Case(
        Function(lambda x, y: x + y[1:]), lambda n: (torch.randn(n), torch.randn(n + 1)),
        ({0: a}, {0: a + 1}), {"n": (1, 100)}, {"n": 7}, at=({"n": 1},),
        refused=(((torch.randn(4), torch.randn(4)),
                 "input 1 'inputs_1', dimension 0: 4, "
                 "but 's0 + 1' is 5, as 's0' is 4 (input 0 'inputs_0', dimension 0)"),))
    made["DS-10 test_input_codegen_with_sympy_expr"] = Case(
        Function(lambda x, y, z: torch.cat([x, y, y, x[:1]]) + z),
        lambda a, b: (torch.randn(a), torch.randn(b), torch.randn(a + 2 * b + 1)),
        ({0: Dim.AUTO}, {0: Dim.AUTO}, {0: Dim.AUTO}), {"a": (2, 100), "b": (2, 100)},
        {"a": 7, "b": 13},
        refused=(((torch.randn(4), torch.randn(5), torch.randn(14)),
                 "input 2 'inputs_2', dimension 0: 14, "
                 "but 's0 + 2*s1 + 1' is 15, as 's0' is 4 (input 0 'inputs_0', dimension 0) "
                 "and 's1' is 5 (input 1 'inputs_1', dimension 0)"),))
    made["DS-11 a lone multiple of a size"] = Case(
        Function(lambda x: x.reshape(-1, 2).sum(1)), lambda n: (torch.randn(2 * n),),
        ({0: 2 * half},), {"n": (2, 64)}, {"n": 5},
        refused=(((torch.randn(7),), "input 0 'inputs_0', dimension 0: 7, must be '2*s0' for an integer 's0'"),))
    made["DS-12 test_zero_grid_with_backed_symbols"] = Case(
        Function(lambda x: (x * 2 + 1, x.sum(0))), **one("n", "n", 4, low=0, at=({"n": 0}, {"n": 1})))
    made["DS-13 test_issue_140766"] = Case(
        Function(attention_after_reshape), **one("n", "n", 10, 32, high=12, example=3))
    made["DS-14 test_fallback_kernel_with_symexpr_output"] = Case(
        Function(lambda x: F.interpolate(x, size=(x.size(2) * 2, x.size(3) // 2), mode="bicubic")),
        lambda h, w: (torch.randn(2, 3, h, w),), ({2: height, 3: width},),
        {"h": (4, 60), "w": (4, 60)}, {"h": 9, "w": 14})
    made["DS-15 test_runtime_checks"] = Case(
        Function(lambda *each: sum(x.to(torch.float64).sum((1, 2)) for x in each)), of_each_type,
        tuple({0: batch} for _ in DTYPES), {"n": (1, 512)}, {"n": 6}, refused=(
            (instead(0, torch.randn(5, 3, 4, dtype=torch.float64)),
             "input 0 'inputs_0': expected dtype float32, but got float64"),
            (instead(3, torch.zeros(5, 3, 4, dtype=torch.float16)),
             "input 3 'inputs_3': expected dtype bfloat16, but got float16"),
            (instead(9, torch.zeros(5, 3, 4, dtype=torch.uint8)),
             "input 9 'inputs_9': expected dtype bool, but got uint8"),
            (instead(4, torch.zeros(5, 3, 5, dtype=torch.int64)),
             "input 4 'inputs_4': expected sizes [?, 3, 4], but got [5, 3, 5]"),
            (instead(5, torch.zeros(4, 3, 4, dtype=torch.int32)),
             "input 5 'inputs_5', dimension 0: 4, but 's0' is 5 (input 0 'inputs_0', dimension 0)"),
            (instead(6, torch.zeros(5, 3, dtype=torch.int16)), "input 6 'inputs_6': expected rank 3, but got 2"),
            (instead(1, torch.randn(5, 3, 4, dtype=torch.float64)),
             "input 1 'inputs_1': expected strides [12, 1, 3], but got [12, 4, 1]"),
            (instead(7, torch.zeros(5, 4, 3, dtype=torch.int8).transpose(1, 2)),
             "input 7 'inputs_7': expected strides [12, 4, 1], but got [12, 1, 3]")))
    made["DS-16 test_runtime_checks_shape_failed"] = Case(
        Function(lambda x: x.relu()), **one("n", "n", 4, low=2, high=64, refused=(
            ((torch.randn(1, 4),), "input 0 'inputs_0', dimension 0: 's0' is 1, must be 2 … 64"),
            ((torch.randn(65, 4),), "input 0 'inputs_0', dimension 0: 's0' is 65, must be 2 … 64"),
            ((torch.randn(8, 5),),
             "input 0 'inputs_0': expected sizes [?, 4], "
             "but got [8, 5]"), ((torch.randn(8),), "input 0 'inputs_0': expected rank 2, but got 1"))))
    made["DS-17 test_runtime_checks_complex"] = Case(
        Function(lambda x: x * 2j + x.conj()),
        lambda n: (torch.randn(n, 3, dtype=torch.complex64),), ({0: batch},), {"n": (1, 512)},
        {"n": 4})
    made["DS-18 test_aoti_runtime_asserts_backed_symint"] = Case(
        Function(lambda x: x.reshape(100, -1).sum(1)), lambda n: (torch.randn(100 * n),), ({0: 100 * half},),
        {"n": (2, 64)}, {"n": 21},
        refused=(((torch.randn(2099),),
                 "input 0 'inputs_0', dimension 0: 2099, must be '100*s0' for an integer 's0'"),))
    made["DS-19 test_constant"] = Case(
        Function(lambda x: x + torch.full((1,), x.size(0), dtype=torch.float)), **one("n", "n", 4))
    # With a custom operator: tests/integration/dynamic_program_test.cpp.
    made["DS-20 test_same_backing"] = Case(
        Function(lambda x: x.sort(0).values * x.size(0) / 3), **one("n", "n", 4))
    made["DS-21 test_inference_python_dispatcher"] = Case(
        Function(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + 1),
        lambda h, w: (torch.randn(1, 2, h, w),), ({2: height, 3: width},),
        {"h": (4, 60), "w": (4, 60)}, {"h": 8, "w": 9})
    made["DS-22 equal symbols that disagree are refused"] = Case(
        Function(lambda x, y: x + y), two_rows, ({0: batch}, {0: batch}), {"n": (1, 512)}, {"n": 5},
        refused=(((torch.randn(4, 16), torch.randn(5, 16)),
                 "input 1 'inputs_1', dimension 0: 5, but 's0' is 4 (input 0 'inputs_0', dimension 0)"),))
    made["DS-23 a size that the program fixes is reported"] = Case(
        Function(lambda x: x * (x.size(0) ** 0.3)), **one("n", "n", 4, fixed=(("inputs_0", 0),)))
    made["DS-26 integers that depend on sizes are returned"] = Case(
        Function(lambda x: (x * 2, x.size(0), x.size(0) * 3 + 1, (x.size(0) + 1) // 2)), **one("n", "n", 4))
    made["numbers that vary and are no integers"] = Case(
        Scaled(), **one("n", "n", 4, low=2, high=2000, exact=True))
    made["a mean and a variance that are written by hand"] = Case(
        Function(by_hand), **one("n", "n", 4, low=2, high=2000, at=({"n": 3}, {"n": 37}, {"n": 1999})))
    auto_integer = (None, Dim.AUTO)
    made["an integer is a symbol"] = Case(
        Function(lambda x, n: (x * n + torch.full((1,), n, dtype=torch.float), x.sum() + torch.arange(n) * (1.0 / n), n + 1)),
        lambda n: (torch.randn(3, 4), n), auto_integer, {"n": (2, 600)}, {"n": 5}, at=({"n": 2049},),
        refused=(((torch.randn(3, 4), -1), "input 1 'inputs_1': 's0' is -1, must be at least 2"),
                 ((torch.randn(3, 4), torch.tensor(5.0)),
                  "input 1 'inputs_1': expected dtype int64, but got float32")))
    made["an integer is a decoding position"] = Case(
        Function(decoded), lambda p: (torch.randn(2, 8), torch.randn(2, 16, 8), p), (None, None, Dim.AUTO),
        {"p": (1, 14)}, {"p": 5}, refused=(  # PyTorch guards against what is all of the cache, or one position.
            ((torch.randn(2, 8), torch.randn(2, 16, 8), 15),
             "the program was traced for sizes with '8*s0 + 8 != 128', but 's0' is 15 (input 2 'inputs_2')"),
            ((torch.randn(2, 8), torch.randn(2, 16, 8), 16), "input 2 'inputs_2': 's0' is 16, must be 1 … 15")))
    made["an integer and a size that bounds it"] = Case(
        Function(lambda x, n: x[:n].sum(0) + n), lambda n, m: (torch.randn(n + m, 4), n), ({0: Dim.AUTO}, Dim.AUTO),
        {"n": (2, 60), "m": (1, 60)}, {"n": 5, "m": 4})
    made["an integer is the size of an input too"] = Case(
        Function(lambda x, n: torch.arange(n) + x * 2), lambda n: (torch.randn(n), n), ({0: Dim.AUTO}, Dim.AUTO),
        {"n": (2, 100)}, {"n": 5},
        refused=(((torch.randn(6), 7),
                 "input 1 'inputs_1': 7, but 's0' is 6 (input 0 'inputs_0', dimension 0)"),))
    made["an integer that the program fixes"] = Case(
        Function(lambda x, n: x * (n ** 0.3)), lambda n: (torch.randn(3), n), auto_integer, {"n": (5, 5)}, {"n": 5},
        fixed=(("inputs_1", None),),
        refused=(((torch.randn(3), 7),
                 "input 1 'inputs_1': 7, must be 5, the only value it was compiled for"),))
    made["an integer that PyTorch fixes"] = Case(
        Function(lambda x, n: x * 2 if n == 5 else x * 3), lambda n: (torch.randn(3), n), auto_integer, {"n": (5, 5)},
        {"n": 5},
        refused=(((torch.randn(3), 7),
                 "input 1 'inputs_1': 7, must be 5, the only value it was compiled for"),))
    made["an even integer"] = Case(
        Function(lambda x, n: x * n if n % 2 == 0 else x - n), lambda n: (torch.randn(3), 2 * n), auto_integer,
        {"n": (1, 50)}, {"n": 3},
        refused=(((torch.randn(3), 7),
                 "the program was traced for sizes with 'Mod(s0, 2) == 0', but 's0' is 7 (input 1 'inputs_1')"),))
    made["numbers of two sizes"] = Case(
        Function(lambda x: x * (x.size(0) / x.size(1)) + x.sum() * (1.0 / (x.size(0) * x.size(1)))),
        lambda r, c: (torch.randn(r, c),), ({0: rows, 1: columns},), {"r": (1, 64), "c": (2, 64)}, {"r": 5, "c": 9})
    made["a number that varies, passed to libtorch"] = Case(
        Function(lambda x: torch.addmm(torch.ones(4), x, torch.eye(4) + 1, beta=1.0 / x.size(0),
                                       alpha=0.1 * x.size(0))), **one("n", "n", 4, low=2))
    made["DS-24 test_derived_dim_basic"] = Case(
        Function(lambda x, y: (x + y[1:]).softmax(0)),
        lambda n: (torch.randn(n), torch.randn(n + 1)), ({0: a}, {0: a + 1}), {"n": (2, 100)},
        {"n": 7})
    made["DS-25 test_dim_auto_and_dim"] = Case(
        Function(lambda x, y: x - y), lambda n: (torch.randn(n, 3), torch.randn(n, 3)),
        ({0: Dim.AUTO}, {0: batch}), {"n": (2, 512)}, {"n": 6},
        refused=(((torch.randn(4, 3), torch.randn(6, 3)),
                 "input 1 'inputs_1', dimension 0: 6, but 's0' is 4 (input 0 'inputs_0', dimension 0)"),))
    many = Dim("many", min=2, max=(1 << 15) + 8)
    made["DS-27 more elements than 31 bits count"] = Case(
        Function(lambda x: (x.sum(), x[-1].int() * 2 + x[0])), mostly_zeros, ({0: many},),
        {"n": (2, (1 << 15) + 8)}, {"n": 4}, small=False)
    made["several sizes of one tensor"] = Case(
        Function(lambda x: (x.t() @ x).softmax(1) + x.mean()), lambda r, c: (torch.randn(r, c),),
        ({0: rows, 1: columns},), {"r": (1, 64), "c": (2, 64)}, {"r": 5, "c": 9},
        at=({"r": 1, "c": 2}, {"r": 7, "c": 7}))
    made["sizes as numbers"] = Case(Weighted(), **one("n", "n", 4))
    return made

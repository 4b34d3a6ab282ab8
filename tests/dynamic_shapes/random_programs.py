"""Random programs whose sizes vary: views, products, reductions, padding, gathers, in any order.

A program is a list of steps on tensors whose sizes are known as text ("a", "(a + b)", "4 * a"), so that
each step is valid at every size.
"""

import random

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from cases import Case

LOW, HIGH = 5, 56  # More than 50 sizes.
EXAMPLE = {"a": 7, "b": 12, "c": 9, "d": 10, "e": 8, "f": 11}


def product(first, second):
    return second if first == "1" else first if second == "1" else f"{first} * {second}"


class Builder:
    """Draws steps, and follows the sizes of what they make."""

    def __init__(self, draw, symbols):
        self.draw, self.steps = draw, []
        self.shapes = [tuple(draw.choice([*symbols, "4", "6"]) for _ in range(draw.randint(1, 3)))
                       for _ in range(draw.randint(1, 2))]
        missing = [name for name in symbols if all(name not in shape for shape in self.shapes)]
        self.shapes += [(*missing[first:first + 3], "4") for first in range(0, len(missing) or 1, 3)]
        self.inputs = list(self.shapes)

    def add(self, operation, shape):
        self.steps.append(operation)
        self.shapes.append(tuple(shape))

    def pick(self, condition=lambda shape: True):
        found = [i for i, shape in enumerate(self.shapes) if len(shape) <= 4 and condition(shape)]
        return self.draw.choice(found) if found else None

    def step(self):
        kinds = (self.unary, self.binary, self.transpose, self.merge, self.split, self.reduce, self.softmax,
                 self.concatenate, self.shorten, self.pad, self.multiply, self.broadcast, self.gather,
                 self.running, self.choose, self.flip, self.repeat)
        self.draw.choice(kinds)()

    def unary(self):
        i, function = self.pick(), self.draw.choice([torch.relu, torch.sin, torch.tanh, F.gelu, torch.abs])
        self.add(lambda v: function(v[i]), self.shapes[i])

    def binary(self):
        i = self.pick()
        j = self.pick(lambda shape: shape == self.shapes[i])
        function = self.draw.choice([torch.add, torch.mul, torch.maximum, torch.sub])
        self.add(lambda v: function(v[i], v[j]), self.shapes[i])

    def transpose(self):
        i = self.pick(lambda shape: len(shape) >= 2)
        if i is not None:
            shape = list(self.shapes[i])
            a, b = self.draw.sample(range(len(shape)), 2)
            shape[a], shape[b] = shape[b], shape[a]
            copied = self.draw.random() < 0.5
            self.add(lambda v: v[i].transpose(a, b).contiguous() if copied else v[i].transpose(a, b), shape)

    def merge(self):
        i = self.pick(lambda shape: len(shape) >= 2)
        if i is not None:
            shape = self.shapes[i]
            at = self.draw.randrange(len(shape) - 1)
            self.add(lambda v: v[i].flatten(at, at + 1),
                     (*shape[:at], product(shape[at], shape[at + 1]), *shape[at + 2:]))

    def split(self):
        i = self.pick(lambda shape: any(size in ("4", "6") or size.endswith("* 4") for size in shape))
        if i is not None:
            shape = self.shapes[i]
            at = next(d for d, s in enumerate(shape) if s in ("4", "6") or s.endswith("* 4"))
            outer = {"4": "2", "6": "3"}.get(shape[at], shape[at][:-1] + "2")
            self.add(lambda v: v[i].unflatten(at, (-1, 2)), (*shape[:at], outer, "2", *shape[at + 1:]))

    def reduce(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            shape, keep = self.shapes[i], self.draw.random() < 0.4
            at = self.draw.randrange(len(shape))
            function = self.draw.choice([torch.sum, torch.mean, torch.amax, torch.var])
            if function is torch.var and shape[at].startswith("1"):
                function = torch.sum
            self.add(lambda v: function(v[i], at, keepdim=keep),
                     (*shape[:at], *(("1",) if keep else ()), *shape[at + 1:]))

    def softmax(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            at = self.draw.randrange(len(self.shapes[i]))
            self.add(lambda v: v[i].softmax(at), self.shapes[i])

    def concatenate(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            shape = self.shapes[i]
            at = self.draw.randrange(len(shape))
            j = self.pick(lambda other: len(other) == len(shape) and
                          all(a == b for d, (a, b) in enumerate(zip(shape, other)) if d != at))
            self.add(lambda v: torch.cat([v[i], v[j]], at),
                     (*shape[:at], f"({shape[at]} + {self.shapes[j][at]})", *shape[at + 1:]))

    def shorten(self):
        i = self.pick(lambda shape: any(size not in ("1", "2") for size in shape))
        if i is not None:
            shape = self.shapes[i]
            at = next(d for d, s in enumerate(shape) if s not in ("1", "2"))
            kind = self.draw.choice(["first", "last", "every"])
            if kind == "every":
                self.add(lambda v: v[i].narrow(at, 0, v[i].size(at))[(slice(None),) * at + (slice(0, None, 2),)],
                         (*shape[:at], f"(({shape[at]} + 1) // 2)", *shape[at + 1:]))
            else:
                start = 1 if kind == "first" else 0
                self.add(lambda v: v[i].narrow(at, start, v[i].size(at) - 1),
                         (*shape[:at], f"({shape[at]} - 1)", *shape[at + 1:]))

    def pad(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            shape, before, after = self.shapes[i], self.draw.randint(0, 2), self.draw.randint(0, 2)
            self.add(lambda v: F.pad(v[i], (before, after)),
                     (*shape[:-1], f"({shape[-1]} + {before + after})"))

    def multiply(self):
        i = self.pick(lambda shape: len(shape) in (2, 3))
        if i is not None:
            shape = self.shapes[i]
            self.add(lambda v: v[i] @ v[i].transpose(-1, -2) * 0.1, (*shape[:-1], shape[-2]))

    def broadcast(self):
        i = self.pick(lambda shape: len(shape) >= 2)
        if i is not None:
            self.add(lambda v: v[i] + v[i].mean(0, keepdim=True) * v[i].sum(-1, keepdim=True), self.shapes[i])

    def gather(self):
        i = self.pick(lambda shape: "4" in shape)
        if i is not None:
            shape = self.shapes[i]
            at = shape.index("4")
            order = [self.draw.randrange(4) for _ in range(self.draw.choice([3, 6]))]
            self.add(lambda v: v[i].index_select(at, torch.tensor(order)),
                     (*shape[:at], str(len(order)), *shape[at + 1:]))

    def running(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            at = self.draw.randrange(len(self.shapes[i]))
            self.add(lambda v: v[i].cumsum(at) * 0.1, self.shapes[i])

    def choose(self):
        i = self.pick()
        j = self.pick(lambda shape: shape == self.shapes[i])
        self.add(lambda v: torch.where(v[i] > 0, v[i], v[j] * 2), self.shapes[i])

    def flip(self):
        i = self.pick(lambda shape: len(shape) >= 1)
        if i is not None:
            at = self.draw.randrange(len(self.shapes[i]))
            self.add(lambda v: v[i].flip(at), self.shapes[i])

    def repeat(self):
        i = self.pick(lambda shape: 1 <= len(shape) <= 3)
        if i is not None:
            shape, size = self.shapes[i], self.draw.randrange(len(self.inputs[0]))
            self.add(lambda v: v[i].unsqueeze(0).expand(v[0].size(size), *v[i].shape),
                     (self.inputs[0][size], *shape))


class Program(nn.Module):
    def __init__(self, builder):
        super().__init__()
        self.steps, self.results = builder.steps, len(builder.inputs)

    def forward(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        return tuple(values[self.results:][-3:])


def size_at(text, sizes):
    return eval(text, {}, dict(sizes))


def random_case(seed):
    draw = random.Random(seed)
    symbols = list(EXAMPLE)[:draw.choice([1, 2, 3, 1, 2, 3, len(EXAMPLE)])]
    builder = Builder(draw, symbols)
    while len(builder.steps) < draw.randint(3, 9):
        builder.step()
    dims = {name: Dim(name, min=LOW, max=HIGH) for name in symbols}
    shapes = tuple({d: dims[size] for d, size in enumerate(shape) if size in dims}
                   for shape in builder.inputs)

    def inputs(**sizes):
        return tuple(torch.randn([size_at(size, sizes) for size in shape]) for shape in builder.inputs)

    example = {name: EXAMPLE[name] for name in symbols}
    return Case(Program(builder), inputs, shapes, {name: (LOW, HIGH) for name in symbols}, example,
                may_be_fixed=True, most=40**3 if len(symbols) <= 3 else 8_000_000)

"""Writes small torch.export archives and what PyTorch computes from them.

usage: make_archives.py OUTPUT_DIRECTORY [NAME...]

For each program NAME: NAME.pt2 as torch.export.save writes it, and NAME.outputs.pt, a list: the
tensors the module returns on the archive's sample inputs, in the order of its call spec, followed by
the buffers and inputs that the call updates, by name: [[outputs], {name: tensor}].
"""

import argparse
import copy
import math
import pathlib

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch.utils import _pytree as pytree


class Mlp(nn.Module):
    """Linear, layer norm, activation."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)
        self.second = nn.Linear(32, 8)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


class Convolution(nn.Module):
    """Convolution and batch norm as they are for inference."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.convolution(x)))
        x = nn.functional.max_pool2d(x, 2)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class TrainingNorm(nn.Module):
    """Batch norm that updates its statistics."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(x) * 2


class Nested(nn.Module):
    """Dictionaries, lists, None and numbers in and out."""

    def forward(self, x, tensors, scale=2.0):
        left, right = torch.split(x, [2, 4], dim=1)
        total = left.sum(1, keepdim=True) * scale + tensors["a"][0] - tensors["b"]
        return {"total": total, "parts": [left, right + 1], "nothing": None, "scale": scale}


class Counter(nn.Module):
    """A buffer that counts its calls, and an average of what it saw."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("average", torch.zeros(4), persistent=False)

    def forward(self, x):
        self.count.add_(1)
        self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x * self.count + self.average


class UpdatesInput(nn.Module):
    """An input that is written to."""

    def forward(self, x, y):
        x.add_(y)
        x[0].mul_(2)
        return x.sum() + y


class Attention(nn.Module):
    """Embedding, positions, causal attention, tied output weights."""

    def __init__(self, vocabulary=50, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.embedding(tokens)
        x = x + torch.arange(length, device=x.device)[:, None] * 0.01
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        y = (scores @ v).transpose(1, 2).reshape(batch, length, -1)
        fused = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + fused.transpose(1, 2).flatten(2)
        return self.head(x + self.out(y))


class Recurrent(nn.Module):
    """An LSTM and a GRU."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True)
        self.gru = nn.GRU(12, 6, batch_first=True)

    def forward(self, x):
        y, (hidden, cell) = self.lstm(x)
        z, last = self.gru(y)
        return z, hidden, cell, last


class Modes(nn.Module):
    """Regions with another grad mode and with autocast, a literal, an index."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        with torch.no_grad():
            positions = torch.arange(x.shape[0])[:, None] / 10.0
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        y = y.float() + positions + torch.tensor([0.5])
        return y[:, [0, 2, 4]], y > 0, torch.where(y > 0, y, 0)


class Dynamic(nn.Module):
    """Arithmetic on a symbolic batch size."""

    def forward(self, x):
        rows = x.shape[0]
        return x.sum(0) / rows + x.new_ones(rows * 2 + 1).sum() + x.reshape(rows // 1, -1).amax()


class Branches(nn.Module):
    """A branch that depends on data, within another, and a loop over rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        def small(y):
            return torch.cond(y.max() > 0.5, lambda z: z.sin(), lambda z: z + 1, (y,))

        chosen = torch.cond(x.sum() > 4, lambda y: self.linear(y), small, (x,))
        return chosen, map_rows(lambda row, scale: row * scale, x, chosen.sum(0))


def programs():
    """Name to module, arguments, keyword arguments, dynamic shapes."""
    batch = torch.export.Dim("batch", min=2, max=64)
    rows = torch.randn(6, 6)
    return {
        "mlp": (Mlp(), (torch.randn(4, 16),), {}, None),
        "mlp_dynamic": (Mlp(), (torch.randn(4, 16),), {}, ({0: batch},)),
        "convolution": (Convolution().eval(), (torch.randn(2, 3, 8, 8),), {}, None),
        "training_norm": (TrainingNorm().train(), (torch.randn(5, 6),), {}, None),
        "nested": (
            Nested(),
            (rows, {"a": [torch.randn(6, 1)], "b": torch.randn(1)}),
            {"scale": 3.0},
            None,
        ),
        "counter": (Counter(), (torch.randn(3, 4),), {}, None),
        "updates_input": (UpdatesInput(), (torch.randn(3, 4), torch.randn(4)), {}, None),
        "attention": (Attention(), (torch.randint(0, 50, (2, 7)),), {}, None),
        "recurrent": (Recurrent(), (torch.randn(2, 5, 8),), {}, None),
        "modes": (Modes(), (torch.randn(4, 8),), {}, None),
        "branches": (Branches(), (torch.rand(2, 4),), {}, None),
        "branches_taken": (Branches(), (torch.rand(2, 4) + 4,), {}, None),
        "dynamic": (Dynamic(), (torch.randn(6, 5),), {}, ({0: batch},)),
    }


def tensors_of(tree):
    """The tensors among the leaves of a nest."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def updates_of(module, arguments, keywords, call):
    """What `call` changes in place: buffers by name, arguments as input0, input1, ..."""
    state = dict(module.named_buffers())
    state |= {f"input{i}": t for i, t in enumerate(tensors_of((arguments, keywords)))}
    before = {name: tensor.clone() for name, tensor in state.items()}
    outputs = [tensor.detach().clone() for tensor in tensors_of(call())]
    after = {name: t.clone() for name, t in state.items() if not torch.equal(t, before[name])}
    return outputs, after


def write(directory, name, module, arguments, keywords, dynamic_shapes, decompose=False):
    """Writes the archive and the outputs of one program."""
    with torch.no_grad():
        program = torch.export.export(
            copy.deepcopy(module),
            copy.deepcopy(arguments),
            copy.deepcopy(keywords),
            dynamic_shapes=dynamic_shapes,
        )
        if decompose:
            program = program.run_decompositions()
        torch.export.save(program, directory / f"{name}.pt2")
        copied = copy.deepcopy((module, arguments, keywords))
        outputs, updates = updates_of(*copied, lambda: copied[0](*copied[1], **copied[2]))
    torch.save([outputs, updates], directory / f"{name}.outputs.pt")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (module, args, keywords, dynamic_shapes) in programs().items():
        for suffix, decompose in (("", False), ("_core", True)):
            if arguments.names and name + suffix not in arguments.names:
                continue
            write(arguments.directory, name + suffix, module, args, keywords, dynamic_shapes, decompose)


if __name__ == "__main__":
    main()

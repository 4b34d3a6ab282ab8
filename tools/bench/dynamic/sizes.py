"""What varies in each model of ./dev bench, and the sizes at which it is measured."""

from dataclasses import dataclass
from typing import Callable

import torch
from torch.export import Dim


@dataclass
class Varying:
    what: str
    arguments: Callable  # a size -> the arguments
    dims: tuple  # of each argument, as torch.export takes them
    sizes: list  # the one that is exported first, then others


def rows(name, *rest, sizes, most):
    """A tensor of n rows."""
    return Varying(name, lambda n: (torch.randn(n, *rest),), ({0: Dim("n", min=1, max=most)},), sizes)


def words(count, sizes, batch=1):
    """Sentences of n words."""
    return Varying("words", lambda n: (torch.randint(count, (batch, n)),), ({1: Dim("n", min=2, max=512)},), sizes)


def squares(sizes):
    """An image of n by n, both multiples of four."""
    high, wide = Dim("h", min=4, max=128), Dim("w", min=4, max=128)
    return Varying("pixels a side", lambda n: (torch.randn(1, 3, n, n),), ({2: 4 * high, 3: 4 * wide},), sizes)


def click_logs(n):
    return torch.randn(n, 13), torch.randint(10000, (n, 26))


ROWS = Dim("n", min=1, max=4096)
VARYING = {
    "pointwise": rows("rows", 4096, sizes=[512, 1, 16, 100, 256, 1000], most=4096),
    "norms": rows("rows", 1024, sizes=[4096, 1, 16, 100, 512, 2000], most=8192),
    "mlp": rows("rows", 256, sizes=[16, 1, 2, 7, 64, 256], most=1024),
    "norm-mlp": rows("rows", 512, sizes=[64, 1, 2, 7, 32, 256], most=1024),
    "resnet18": rows("images", 3, 224, 224, sizes=[4, 1, 2, 3, 6, 8], most=64),
    "gpt2": words(50257, [128, 8, 16, 33, 64, 200]),
    "bert": words(30522, [128, 8, 16, 33, 64, 200], batch=4),
    "llama": words(32000, [256, 8, 16, 33, 64, 128]),
    "vit": rows("images", 3, 224, 224, sizes=[2, 1, 3, 4, 6, 8], most=64),
    "unet": squares([128, 32, 64, 92, 160, 192]),
    "lstm": rows("sequences", 32, 256, sizes=[8, 1, 2, 4, 16, 32], most=256),
    "recommender": Varying("rows", click_logs, ({0: ROWS}, {0: ROWS}), [256, 1, 16, 100, 512, 1000]),
    "experts": rows("tokens", 256, sizes=[128, 1, 16, 33, 64, 256], most=1024),
}

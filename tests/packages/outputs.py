"""What a program returns besides tensors, and constants that it returns."""

import torch
from torch import nn

from memory import Own, grid


class Structured(nn.Module):
    def forward(self, x):
        return {"loss": None, "logits": x + 1, "hidden": (x * 2, None)}


class Empty(nn.Module):
    """Its only constant has no elements."""

    def __init__(self):
        super().__init__()
        self.register_buffer("none", torch.zeros(0, 3))

    def forward(self, x):
        return torch.cat([x, self.none])


def programs():
    complex_row = torch.complex(grid(6), grid(6) * 2)
    return {
        "None in a structure": (Structured(), (grid(3),)),
        "None first": (lambda x: (None, x + 1), (grid(3),)),
        "None beside what is written": (lambda x: (x.add_(1), None, x * 2)[1:], (grid(3),)),
        "nothing is scattered": (
            lambda x, i, g: (x.scatter_add(0, i, g), torch.zeros(5).index_add(0, i, g), x.scatter(0, i, g), x.index_put((i,), g),
                             x.scatter_reduce(0, i, g, "amax")),
            (grid(5), torch.empty(0, dtype=torch.int64), torch.empty(0))),
        "a constant without elements": (Empty(), (grid(2, 3),)),
        "views of constants that libtorch makes": (
            Own(lambda s, x: (torch.view_as_real(s.z), s.r.view(torch.int32), s.q.unfold(0, 2, 2), x + 1),
                z=complex_row, r=grid(6), q=grid(6)), (grid(3),)),
    }

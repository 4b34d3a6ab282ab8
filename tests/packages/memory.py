"""Copies that are copies, and what is written in which order."""

import torch
from torch import nn
from torch.nn import functional as F


def grid(*sizes):
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) / 7 - 1


class Own(nn.Module):
    """A function of buffers, which are the module's attributes, and of inputs."""

    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def last(*parts):
    """Of what is done one after the other."""
    return parts[-1]


def shifted(x):
    y = x.clone()
    y <<= 1
    y >>= 2
    return y


def programs():
    complex_row = torch.complex(grid(5), -grid(5))
    made = {}

    # A constant that libtorch computes with gaps between its elements.
    def scattered(name, function, *sizes):
        made[f"folded {name} with gaps"] = (Own(function, w=grid(4, 6), v=torch.ones(sizes)), (grid(4, 3),))

    scattered("select_scatter", lambda s, x: x + torch.select_scatter(s.w[:, ::2], s.v, 0, 1), 3)
    scattered("slice_scatter", lambda s, x: x * torch.slice_scatter(s.w[:, ::2], s.v, 0, 1, 3), 2, 3)
    scattered("diagonal_scatter", lambda s, x: x + torch.diagonal_scatter(s.w[:, ::2], s.v), 3)
    scattered("scatter in a product", lambda s, x: x.t() @ torch.select_scatter(s.w[:, ::2], s.v, 0, 1), 3)

    # A copy that needs no kernel is one all the same.
    made["view_copy, then a write to its input"] = (
        lambda x: last(y := torch.view_copy(x, (-1,)), x.add_(1), y), (grid(3, 4),))
    made["view_copy of a slice, then a write to its input"] = (
        lambda x: last(y := torch.view_copy(x[1:], (8,)), x.zero_(), y), (grid(3, 4),))
    made["view_copy of a buffer, then a write to it"] = (
        Own(lambda s, x: last(y := torch.view_copy(s.w, (-1,)), s.w.add_(x), y), w=grid(3, 4)), (grid(3, 4),))
    made["view_copy of a transpose"] = (lambda x: torch.view_copy(x.t(), (4, 1, 3)), (grid(3, 4),))
    made["view_copy and a view of it"] = (lambda x: last(y := torch.view_copy(x, (4, 3)), (y, y.t(), y)), (grid(3, 4),))
    made["pixel_shuffle by 1, then a write to its input"] = (
        lambda x: last(y := F.pixel_shuffle(x, 1), x.add_(1), y), (grid(2, 3, 4, 4),))
    made["pixel_shuffle of one pixel, then a write to its input"] = (
        lambda x: last(y := F.pixel_shuffle(x, 2), x.add_(1), y), (grid(1, 8, 1, 1),))
    made["pixel_unshuffle to one pixel, then a write to its input"] = (
        lambda x: last(y := F.pixel_unshuffle(x, 2), x.add_(1), y), (grid(1, 1, 2, 2),))
    made["pixel_shuffle and back"] = (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(F.pixel_shuffle(x, 2) + 1, 2)), (grid(2, 8, 3, 5),))

    # What is copied through a view that libtorch makes is copied before its source is written.
    made["copy_ of view_as_real, then a write to its source"] = (
        lambda z, d: last(d.copy_(torch.view_as_real(z)), z.mul_(2), d * 1), (complex_row, torch.zeros(5, 2)))
    made["copy_ of another type's view, then a write to its source"] = (
        lambda b, a: last(a.copy_(b.view(torch.int32)), b.add_(1), a * 1), (grid(6), torch.zeros(6, dtype=torch.int32)))
    made["copy_ of unfold, then a write to its source"] = (
        lambda b, a: last(a.copy_(b.unfold(0, 4, 4)), b.add_(1), a * 1), (grid(8), torch.zeros(2, 4)))
    made["copy_ of view_as_complex, then a write to its source"] = (
        lambda r, z: last(z.copy_(torch.view_as_complex(r)), r.neg_(), torch.view_as_real(z) * 1),
        (grid(5, 2), torch.zeros(5, dtype=torch.cfloat)))
    made["copy_ of a slice, then a write to its source"] = (
        lambda b, a: last(a.copy_(b[2:6]), b.add_(1), a * 1), (grid(8), torch.zeros(4)))
    made["buffers: copy_ of view_as_real, then a write to its source"] = (
        Own(lambda s, x: last(y := s.b + x, s.b.copy_(torch.view_as_real(s.a)), s.a.mul_(2), y),
            a=complex_row.clone(), b=torch.zeros(5, 2)), (grid(5, 2),))

    # Weights with repetitions and gaps.
    made["a buffer that was expanded"] = (Own(lambda s, x: x + s.w, w=grid(1, 4).expand(3, 4)), (grid(3, 4),))
    made["a buffer that is a slice"] = (Own(lambda s, x: x @ s.w, w=grid(4, 6)[:, ::2]), (grid(3, 4),))

    # In place, with the type and the results of the functional form.
    made["rrelu in place"] = (lambda x: F.rrelu(x * 1, training=False, inplace=True), (grid(6),))
    made["shifts in place, by integers of another type"] = (
        lambda x, n: (x.clone().bitwise_left_shift_(n), x.clone().bitwise_right_shift_(n)),
        (torch.arange(5, dtype=torch.int32), torch.arange(5)))
    made["shifts by operators"] = (shifted, (torch.arange(5),))
    return made

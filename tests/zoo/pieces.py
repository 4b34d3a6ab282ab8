"""torch.nn's own layers, in groups that share their inputs."""

import torch
from torch import nn


class Together(nn.Module):
    """Several layers on the same inputs, one result each."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs):
        return [layer(*inputs) for layer in self.layers]


class Bag(nn.Module):
    """Sums, means and maxima of rows of a table."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode=m) for m in ("sum", "mean", "max"))

    def forward(self, rows, offsets):
        return [bag(rows, offsets) for bag in self.bags]


class Cells(nn.Module):
    """A few steps of each recurrent cell."""

    def __init__(self):
        super().__init__()
        self.plain, self.gru, self.lstm = nn.RNNCell(8, 6), nn.GRUCell(8, 6), nn.LSTMCell(8, 6)

    def forward(self, x):
        plain, gru, state = None, None, None
        for step in x.unbind(1):
            plain, gru, state = self.plain(step, plain), self.gru(step, gru), self.lstm(step, state)
        return plain, gru, state


class Losses(nn.Module):
    """What a training program ends in."""

    def forward(self, scores, classes, values):
        f = nn.functional
        return (f.cross_entropy(scores, classes, label_smoothing=0.1), f.mse_loss(scores, values),
                f.nll_loss(scores.log_softmax(1), classes), f.smooth_l1_loss(scores, values),
                f.kl_div(scores.log_softmax(1), values.softmax(1), reduction="batchmean"),
                f.binary_cross_entropy_with_logits(scores, values.sigmoid()),
                f.cosine_embedding_loss(scores, values, classes.sign() * 2 - 1),
                f.huber_loss(scores, values))


def bidirectional(kind):
    return kind(8, 6, num_layers=2, bidirectional=True, batch_first=True)


class Attention(nn.Module):
    """Multi-head attention with its weights."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x)


def classes():
    return torch.randint(0, 5, (6,))


PIECES = {
    "activations": lambda: (Together(
        nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.ELU(), nn.CELU(),
        nn.SELU(), nn.Softplus(), nn.Softsign(), nn.Tanhshrink(), nn.Hardtanh(), nn.Hardswish(),
        nn.Hardsigmoid(), nn.LogSigmoid(), nn.Softmin(1), nn.LeakyReLU(), nn.PReLU(7), nn.GLU(0),
        nn.Threshold(0.1, 5.0), nn.Softshrink(), nn.Hardshrink()), (torch.randn(4, 7),), {}),
    "convolutions": lambda: (Together(
        nn.Conv2d(4, 6, 3), nn.Conv2d(4, 8, 3, groups=4, padding="same"),
        nn.Conv2d(4, 6, 3, dilation=2, padding=2, padding_mode="reflect"),
        nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), nn.Unfold(3),
        nn.PixelUnshuffle(2)), (torch.randn(2, 4, 10, 12),), {}),
    "convolutions_1d_3d": lambda: (Together(
        nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 5, 3, padding=1)), nn.Conv3d(4, 5, 3),
        nn.ConvTranspose3d(4, 3, 2)), (torch.randn(2, 4, 5, 6, 7),), {}),
    "norms": lambda: (Together(
        nn.BatchNorm2d(6).eval(), nn.InstanceNorm2d(6, affine=True), nn.GroupNorm(3, 6),
        nn.LayerNorm([8, 9]), nn.RMSNorm(9), nn.LocalResponseNorm(3)),
        (torch.randn(2, 6, 8, 9),), {}),
    "norms_in_training": lambda: (Together(nn.BatchNorm2d(6), nn.InstanceNorm2d(
        6, track_running_stats=True)), (torch.randn(2, 6, 8, 9),), {}),
    "pools": lambda: (Together(
        nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.LPPool2d(2, 2),
        nn.AdaptiveAvgPool2d((3, 4)), nn.AdaptiveMaxPool2d(2), nn.MaxPool2d(2, ceil_mode=True)),
        (torch.randn(2, 3, 9, 10),), {}),
    "resizes": lambda: (Together(
        nn.Upsample(scale_factor=2), nn.Upsample((7, 9), mode="bilinear"),
        nn.Upsample((7, 9), mode="bicubic", align_corners=True), nn.PixelShuffle(2),
        nn.ReflectionPad2d(2), nn.ReplicationPad2d((1, 2, 0, 1)), nn.ZeroPad2d(1),
        nn.CircularPad2d(1), nn.ChannelShuffle(2)), (torch.randn(2, 4, 5, 6),), {}),
    "recurrent_layers": lambda: (Together(*map(bidirectional, (nn.RNN, nn.GRU, nn.LSTM))),
                                 (torch.randn(3, 5, 8),), {}),
    "recurrent_cells": lambda: (Cells(), (torch.randn(3, 5, 8),), {}),
    "transformer_layers": lambda: (Together(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), Attention(),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, norm_first=True), 2).eval()),
        (torch.randn(2, 5, 16),), {}),
    "sequence_to_sequence": lambda: (
        nn.Transformer(16, 4, 1, 1, 32, batch_first=True).eval(),
        (torch.randn(2, 5, 16), torch.randn(2, 4, 16)), {}),
    "embedding_bags": lambda: (Bag(), (torch.randint(0, 20, (9,)), torch.tensor([0, 2, 5])), {}),
    "losses": lambda: (Losses(), (torch.randn(6, 5), classes(), torch.randn(6, 5)), {}),
    "bilinear": lambda: (nn.Bilinear(5, 6, 7), (torch.randn(4, 5), torch.randn(4, 6)), {}),
    "distances": lambda: (Together(nn.CosineSimilarity(-1), nn.PairwiseDistance()),
                          (torch.randn(4, 5), torch.randn(4, 5)), {}),
}

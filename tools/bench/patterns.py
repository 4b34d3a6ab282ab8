"""Single fused patterns: what a code generator meets again and again, each alone."""

import torch
from torch import nn
from torch.nn import functional as F

from models import Model


class Pattern(nn.Module):
    """A function of its arguments as a module, which is what every peer takes."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def rotated(x, angles):
    left, right = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()


def focal_loss(logits, target):
    p = logits.sigmoid()
    loss = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (loss * (1 - (p * target + (1 - p) * (1 - target))) ** 2).mean()


def adam(weight, gradient, mean, square):
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square.abs() + 0.001 * gradient * gradient
    return weight - 1e-3 * mean / (square.sqrt() + 1e-8), mean, square


def distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1).sqrt()


ROWS, WIDTH = 1024, 1024
MATRIX = (ROWS, WIDTH)
IMAGE = (8, 64, 56, 56)

# Name, function, shapes of its arguments.
FUNCTIONS = [
    ("add-relu", lambda x, y: F.relu(x + y), [MATRIX, MATRIX]),
    ("bias-gelu", lambda x, b: F.gelu(x + b), [MATRIX, (WIDTH,)]),
    ("bias-gelu-tanh", lambda x, b: F.gelu(x + b, approximate="tanh"), [MATRIX, (WIDTH,)]),
    ("swiglu", lambda x, y: F.silu(x) * y, [MATRIX, MATRIX]),
    ("softmax", lambda x: x.softmax(-1), [MATRIX]),
    ("log-softmax", lambda x: x.log_softmax(-1), [MATRIX]),
    ("scaled-masked-softmax", lambda x, m: (x * 0.125 + m).softmax(-1), [(8, 256, 256), (256, 256)]),
    ("softmax-columns", lambda x: x.softmax(0), [MATRIX]),
    ("layer-norm", lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b), [MATRIX, (WIDTH,), (WIDTH,)]),
    ("residual-layer-norm", lambda x, y, w: F.layer_norm(x + y, (WIDTH,), w), [MATRIX, MATRIX, (WIDTH,)]),
    ("rms-norm", rms_norm, [MATRIX, (WIDTH,)]),
    ("group-norm-silu", lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), [IMAGE, (64,), (64,)]),
    ("batch-norm-relu", lambda x, m, v: F.relu(F.batch_norm(x, m, v.abs())), [IMAGE, (64,), (64,)]),
    ("rotary", rotated, [(8, 12, 128, 64), (128, 64)]),
    ("sum-rows", lambda x: x.sum(-1), [MATRIX]),
    ("sum-columns", lambda x: x.sum(0), [MATRIX]),
    ("sum-all", lambda x: (x * x).sum(), [MATRIX]),
    ("variance", lambda x: x.var(-1), [MATRIX]),
    ("max-index", lambda x: x.argmax(-1), [MATRIX]),
    ("log-sum-exp", lambda x: torch.logsumexp(x, -1), [MATRIX]),
    ("mean-squared-error", lambda x, y: F.mse_loss(x, y), [MATRIX, MATRIX]),
    ("focal-loss", focal_loss, [MATRIX, MATRIX]),
    ("adam", adam, [MATRIX, MATRIX, MATRIX, MATRIX]),
    ("clamp-mix", lambda x, y: torch.where(x > 0, x.clamp(-1, 1) * y, y.abs().sqrt()), [MATRIX, MATRIX]),
    ("transpose-add", lambda x, y: x.t() + y, [MATRIX, MATRIX]),
    ("concatenate", lambda x, y: torch.cat([x.relu(), y.tanh()], -1), [MATRIX, MATRIX]),
    ("pad-shift", lambda x: F.pad(x, (1, 1, 1, 1))[:, :, 2:, 2:] - x, [IMAGE]),
    ("average-pool", lambda x: F.relu(F.avg_pool2d(x, 2)), [IMAGE]),
    ("upsample-add", lambda x, y: F.interpolate(x, scale_factor=2) + y, [(8, 64, 28, 28), IMAGE]),
    ("pairwise-distances", distances, [(256, 64), (256, 64)]),
]


def make(function, shapes):
    return lambda: (Pattern(function), tuple(torch.randn(shape) for shape in shapes))


def text(shapes):
    return ", ".join("x".join(str(size) for size in shape) for shape in shapes)


PATTERNS = {name: Model(f"{name} {text(shapes)}", make(function, shapes)) for name, function, shapes in FUNCTIONS}

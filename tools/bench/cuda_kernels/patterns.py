"""The programs that `./dev bench cuda` measures: what memory limits, at 64 MB and more.

A pattern is a function of tensors, whose names and sizes its defaults are. `T` stands for the element type under test;
`i`, for indices below the number that follows it.
"""

import math

import torch
import torch.nn.functional as F

ROWS, COLUMNS = 65536, 1024
TOKENS, WORDS = 8192, 32768
WIDE = ("T", ROWS, COLUMNS)
ROW, COLUMN = ("T", COLUMNS), ("T", ROWS, 1)
STATISTICS = ("float32", ROWS, 1)
LOGITS = ("T", TOKENS, WORDS)
HEADS = ("T", 16, 2048, 16, 64)  # A batch of sequences of heads.
TABLE = ("T", WORDS, COLUMNS)

aten = torch.ops.aten


def gelu(x=WIDE):
    return F.gelu(x)


def silu_mul(x=WIDE, y=WIDE):
    return F.silu(x) * y


def geglu(x=("T", ROWS, 2 * COLUMNS)):
    value, gate = x.chunk(2, dim=-1)
    return value * F.gelu(gate, approximate="tanh")


def bias_relu(x=WIDE, bias=ROW):
    return F.relu(x + bias)


def bias_gelu_residual(x=WIDE, bias=ROW, residual=WIDE):
    return F.gelu(x + bias) + residual


def gelu_backward(gradient=WIDE, x=WIDE):
    return aten.gelu_backward(gradient, x)


def masked(x=WIDE, keep=("bool", ROWS, COLUMNS)):
    return torch.where(keep, x * 1.25, 0.0)


def to_float(x=WIDE):
    return x.double().float() * 0.5


def rotate(x=HEADS, cosine=("T", 2048, 1, 32), sine=("T", 2048, 1, 32)):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def softmax(x=WIDE):
    return x.softmax(-1)


def causal_softmax(x=("T", 32, 2048, 2048)):
    future = torch.ones(2048, 2048, dtype=torch.bool, device=x.device).triu(1)
    return (x * 0.125).masked_fill(future, -math.inf).softmax(-1)


def softmax_backward(gradient=WIDE, y=WIDE):
    return aten._softmax_backward_data(gradient, y, -1, y.dtype)


def log_softmax(x=LOGITS):
    return x.log_softmax(-1)


def cross_entropy(x=LOGITS, target=("i", WORDS, TOKENS)):
    return F.cross_entropy(x.float(), target)


def cross_entropy_backward(y=LOGITS, target=("i", WORDS, TOKENS)):
    wanted = torch.arange(WORDS, device=y.device) == target[:, None]
    return ((y.float().exp() - wanted.float()) * (1 / TOKENS)).to(y.dtype)


def layer_norm(x=WIDE, weight=ROW, bias=ROW):
    return F.layer_norm(x, (COLUMNS,), weight, bias)


def residual_layer_norm(x=WIDE, residual=WIDE, weight=ROW, bias=ROW):
    total = x + residual
    return total, F.layer_norm(total, (COLUMNS,), weight, bias)


def layer_norm_backward(gradient=WIDE, x=WIDE, mean=STATISTICS, scale=STATISTICS, weight=ROW):
    g, normal = gradient.float(), (x.float() - mean) * scale
    weighted = g * weight
    to_x = (weighted - weighted.mean(-1, keepdim=True) - normal * (weighted * normal).mean(-1, keepdim=True)) * scale
    return to_x.to(x.dtype), (g * normal).sum(0).to(weight.dtype), g.sum(0).to(weight.dtype)


def rms_norm(x=WIDE, weight=ROW):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def rms_norm_backward(gradient=WIDE, x=WIDE, scale=STATISTICS, weight=ROW):
    g, wide = (gradient * weight).float(), x.float() * scale
    to_x = (g - wide * (g * wide).mean(-1, keepdim=True)) * scale
    return to_x.to(x.dtype), (gradient.float() * wide).sum(0).to(weight.dtype)


def batch_norm(x=("T", 128, 64, 112, 112), weight=("T", 64), bias=("T", 64), mean=("T", 64), variance=("positive", 64)):
    return F.relu(F.batch_norm(x, mean, variance.to(mean.dtype), weight, bias))


def group_norm(x=("T", 32, 256, 64, 64), weight=("T", 256), bias=("T", 256)):
    return F.group_norm(x, 32, weight, bias)


def row_sum(x=WIDE):
    return x.sum(1)


def row_variance(x=WIDE):
    return x.var(1)


def row_argmax(x=WIDE):
    return x.argmax(1)


def column_sum(x=WIDE):
    return x.sum(0)


def column_max(x=WIDE):
    return x.amax(0)


def full_sum(x=WIDE):
    return x.sum()


def squared_error(x=WIDE, y=WIDE):
    return F.mse_loss(x, y)


def transpose(x=WIDE):
    return x.t().contiguous() + 1


def add_transpose(x=("T", 8192, 8192), y=("T", 8192, 8192)):
    return x + y.t()


def split_heads(x=HEADS):
    return x.transpose(1, 2).contiguous() * 0.125


def embedding(table=TABLE, token=("i", WORDS, ROWS)):
    return F.embedding(token, table) * 32.0


def gather(x=WIDE, index=("i", COLUMNS, ROWS, COLUMNS)):
    return x.gather(1, index)


def embedding_backward(gradient=WIDE, token=("i", WORDS, ROWS)):
    return aten.embedding_dense_backward(gradient, token, WORDS, -1, False)


def scatter_add(x=("T", 16384, COLUMNS), index=("i", 16384, ROWS), source=WIDE):
    return x.index_add(0, index, source)


def running_total(x=WIDE):
    return x.cumsum(1)


PATTERNS = {function.__name__: function for function in [
    gelu, silu_mul, geglu, bias_relu, bias_gelu_residual, gelu_backward, masked, to_float, rotate, softmax,
    causal_softmax, softmax_backward, log_softmax, cross_entropy, cross_entropy_backward, layer_norm,
    residual_layer_norm, layer_norm_backward, rms_norm, rms_norm_backward, batch_norm, group_norm, row_sum,
    row_variance, row_argmax, column_sum, column_max, full_sum, squared_error, transpose, add_transpose, split_heads,
    embedding, gather, embedding_backward, scatter_add, running_total]}


def arguments_of(name, dtype, device, empty=False):
    """Tensors for a pattern, made up, or without contents."""
    made = []
    for kind, *sizes in PATTERNS[name].__defaults__:
        if kind == "i":
            bound, *sizes = sizes
            made.append(torch.empty(sizes, dtype=torch.long, device=device) if empty
                        else torch.randint(bound, sizes, device=device))
        elif kind == "bool":
            made.append(torch.empty(sizes, dtype=torch.bool, device=device) if empty
                        else torch.rand(sizes, device=device) < 0.8)
        else:
            element = dtype if kind in ("T", "positive") else getattr(torch, kind)
            tensor = (torch.empty if empty else torch.randn)(sizes, dtype=element, device=device)
            made.append(tensor if empty or kind != "positive" else tensor.square() + 1)
    return made


class Program(torch.nn.Module):
    """torch.export takes modules."""

    def __init__(self, name):
        super().__init__()
        self.function = PATTERNS[name]

    def forward(self, arguments):
        return self.function(*arguments)

"""The models of ./dev bench: `MODELS[name]` says what it is and makes the module and its arguments."""

from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F


class Pointwise(nn.Module):
    def forward(self, x):
        return F.softmax(F.gelu(x * 1.5 + 2).tanh() * x.sigmoid(), -1) - x.exp().log1p()


class Norms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)) + x)


def mlp(width, layers):
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())])


def norm_mlp(width, layers):
    parts = [(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width)) for _ in range(layers)]
    return nn.Sequential(*[part for group in parts for part in group])


class Attention(nn.Module):
    """Scaled dot products over `heads` heads; fewer heads for keys and values, and rotations, if asked for."""

    def __init__(self, width, heads, causal=False, shared_heads=None, rotate=False):
        super().__init__()
        self.heads, self.shared_heads = heads, shared_heads or heads
        self.causal, self.rotate, self.size = causal, rotate, width // heads
        bias = not rotate
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, self.shared_heads * self.size, bias=bias)
        self.value = nn.Linear(width, self.shared_heads * self.size, bias=bias)
        self.outward = nn.Linear(width, width, bias=bias)

    def rotated(self, x, angles):
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()

    def forward(self, x):
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        key = self.key(x).view(batch, length, self.shared_heads, self.size).transpose(1, 2)
        value = self.value(x).view(batch, length, self.shared_heads, self.size).transpose(1, 2)
        if self.rotate:
            rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
            angles = torch.outer(torch.arange(length), torch.cat([rates, rates]))
            query, key = self.rotated(query, angles), self.rotated(key, angles)
        if self.shared_heads != self.heads:
            times = self.heads // self.shared_heads
            key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.outward(y.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    """The perceptron of Llama: silu(gate) * up."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A transformer's layer: norms before its two halves (GPT-2, ViT, Llama), or after them (BERT)."""

    def __init__(self, attention, perceptron, norm, norm_first=True):
        super().__init__()
        self.attention, self.perceptron, self.norm_first = attention, perceptron, norm_first
        self.first, self.second = norm(), norm()

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.first(x))
            return x + self.perceptron(self.second(x))
        x = self.first(x + self.attention(x))
        return self.second(x + self.perceptron(x))


def perceptron(width, approximate="none"):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate), nn.Linear(4 * width, width))


class LanguageModel(nn.Module):
    """Words (and places, if there are any), blocks, a norm, and the words' weights again for the logits."""

    def __init__(self, words, length, width, blocks, norm, norm_first=True):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width) if length else None
        self.blocks, self.norm, self.norm_first = nn.Sequential(*blocks), norm(), norm_first

    def forward(self, tokens):
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places.weight[: tokens.shape[1]]
        x = self.norm(self.blocks(x)) if self.norm_first else self.blocks(self.norm(x))
        return x @ self.words.weight.t()


def gpt2():
    width, norm = 768, lambda: nn.LayerNorm(768)
    blocks = [Block(Attention(width, 12, causal=True), perceptron(width, "tanh"), norm) for _ in range(12)]
    return LanguageModel(50257, 1024, width, blocks, norm), (torch.randint(50257, (1, 128)),)


def bert():
    width, norm = 768, lambda: nn.LayerNorm(768)
    blocks = [Block(Attention(width, 12), perceptron(width), norm, norm_first=False) for _ in range(12)]
    model = LanguageModel(30522, 512, width, blocks, norm, norm_first=False)
    return model, (torch.randint(30522, (4, 128)),)


def llama():
    width, norm = 768, lambda: nn.RMSNorm(768)
    attention = lambda: Attention(width, 12, causal=True, shared_heads=4, rotate=True)
    blocks = [Block(attention(), Gated(width, 2048), norm) for _ in range(8)]
    return LanguageModel(32000, 0, width, blocks, norm), (torch.randint(32000, (1, 256)),)


class VisionTransformer(nn.Module):
    def __init__(self, size, patch, width, heads, layers, classes):
        super().__init__()
        norm = lambda: nn.LayerNorm(width)
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(Attention(width, heads), perceptron(width), norm) for _ in range(layers)])
        self.norm, self.head = norm(), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks = []
        for stage, before in enumerate([width, width, 2 * width, 4 * width]):
            after = width * 2**stage
            blocks += [Residual(before, after, 1 if stage == 0 else 2), Residual(after, after, 1)]
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(8 * width, classes)

    def forward(self, image):
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class UNet(nn.Module):
    """Two steps down, two up, with what was seen on the way down beside what comes up."""

    def __init__(self, width):
        super().__init__()

        def twice(before, after):
            layers = [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
            return nn.Sequential(*layers, nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())

        self.down1, self.down2 = twice(3, width), twice(width, 2 * width)
        self.middle = twice(2 * width, 4 * width)
        self.up2, self.up1 = twice(6 * width, 2 * width), twice(3 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        y = F.interpolate(self.middle(F.max_pool2d(second, 2)), scale_factor=2, mode="nearest")
        y = F.interpolate(self.up2(torch.cat([y, second], 1)), scale_factor=2, mode="nearest")
        return self.out(self.up1(torch.cat([y, first], 1)))


class Recommender(nn.Module):
    """Sparse features by embedding bags, dense ones by a perceptron, their products pair by pair."""

    def __init__(self, tables, rows, width):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        self.register_buffer("rows_and_columns", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, dense, sparse):
        x = self.dense(dense)
        rows = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        pairs = products[:, self.rows_and_columns[0], self.rows_and_columns[1]]
        return self.top(torch.cat([x, pairs], 1))


class Recurrent(nn.Module):
    """Two LSTM layers over a sequence; what the last step gives is classified."""

    def __init__(self, width, classes):
        super().__init__()
        self.layers, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


class Experts(nn.Module):
    """A mixture of experts where each token takes two, weighed; every expert sees every token."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.inward = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.outward = nn.Parameter(torch.randn(experts, 2 * width, width) / (2 * width) ** 0.5)

    def forward(self, x):
        scores = self.gate(x).softmax(-1)
        best, which = scores.topk(2, -1)
        weights = torch.zeros_like(scores).scatter(1, which, best / best.sum(-1, keepdim=True))
        inner = F.gelu(torch.einsum("tw,ewi->eti", x, self.inward))
        return torch.einsum("eti,eiw,te->tw", inner, self.outward, weights)


@dataclass
class Model:
    what: str
    make: Callable  # () -> module, arguments


def on(module, *shape):
    """A model of one random tensor."""
    return lambda: (module(), (torch.randn(shape),))


MODELS = {
    "pointwise": Model("gelu, tanh, sigmoid, softmax, log1p 512x4096", on(Pointwise, 512, 4096)),
    "norms": Model("layer norm, gelu, add, layer norm 4096x1024", on(lambda: Norms(1024), 4096, 1024)),
    "mlp": Model("4 x (linear, relu) 1x256", on(lambda: mlp(256, 4), 1, 256)),
    "norm-mlp": Model("4 x (linear, relu, layer norm) 64x512", on(lambda: norm_mlp(512, 4), 64, 512)),
    "resnet18": Model("ResNet-18 4x224x224", on(lambda: ResNet18(64, 1000), 4, 3, 224, 224)),
    "gpt2": Model("GPT-2 small 1x128", gpt2),
    "bert": Model("BERT base 4x128", bert),
    "llama": Model("Llama-like, 8 layers of 768, 1x256", llama),
    "vit": Model("ViT base 2x224x224", on(lambda: VisionTransformer(224, 16, 768, 12, 12, 1000), 2, 3, 224, 224)),
    "unet": Model("U-Net with group norms 1x128x128", on(lambda: UNet(32), 1, 3, 128, 128)),
    "lstm": Model("LSTM, 2 layers of 256, 8 sequences of 32", on(lambda: Recurrent(256, 10), 8, 32, 256)),
    "recommender": Model(
        "26 embeddings, pairwise products 256",
        lambda: (Recommender(26, 10000, 32), (torch.randn(256, 13), torch.randint(10000, (256, 26)))),
    ),
    "experts": Model("mixture of 8 experts 128x256", on(lambda: Experts(256, 8), 128, 256)),
}

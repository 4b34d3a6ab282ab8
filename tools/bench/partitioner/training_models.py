"""Four models to train, each small enough to run anywhere and in its full size.

`MODELS[name](full)` gives a module in training mode and its arguments; under FakeTensorMode the full size costs no memory.
"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import models  # noqa: E402: the models of ./dev bench stand one folder up


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, dropout=0.0):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.inward(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout, is_causal=self.causal)
        return self.outward(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer's layer: norms before the two halves (GPT-2, ViT), or after them (BERT)."""

    def __init__(self, width, heads, norm_first=True, causal=False, dropout=0.0, approximate="none"):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads, causal, dropout)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate), nn.Linear(4 * width, width))
        self.first, self.second, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x):
        if self.norm_first:
            x = x + self.drop(self.attention(self.first(x)))
            return x + self.drop(self.perceptron(self.second(x)))
        x = self.first(x + self.drop(self.attention(x)))
        return self.second(x + self.drop(self.perceptron(x)))


class LanguageModel(nn.Module):
    """GPT-2, or BERT with its embeddings' norm and dropout; the loss is the next word's, or the same place's."""

    def __init__(self, words, length, width, heads, layers, causal, dropout, approximate):
        super().__init__()
        self.causal = causal
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(dropout)
        blocks = [Block(width, heads, causal, causal, dropout, approximate) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        x = self.norm(self.blocks(x)) if self.causal else self.blocks(self.drop(self.norm(x)))
        logits = x @ self.words.weight.t()
        shift = 1 if self.causal else 0
        return F.cross_entropy(logits[:, : tokens.shape[1] - shift].flatten(0, 1), tokens[:, shift:].flatten())


class VisionTransformer(nn.Module):
    def __init__(self, size, patch, width, heads, layers, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image, label):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return F.cross_entropy(self.head(self.norm(self.blocks(x))[:, 0]), label)


class ResNet18(models.ResNet18):
    def forward(self, image, label):
        return F.cross_entropy(super().forward(image), label)


def gpt2(full):
    words, batch, length = (50257, 8, 1024) if full else (512, 2, 64)
    size = (768, 12, 12) if full else (64, 4, 3)
    model = LanguageModel(words, length, *size, causal=True, dropout=0.0, approximate="tanh")
    return model, (torch.randint(words, (batch, length)),)


def bert(full):
    words, batch, length = (30522, 16, 512) if full else (512, 2, 64)
    size = (768, 12, 12) if full else (64, 4, 3)
    model = LanguageModel(words, length, *size, causal=False, dropout=0.1, approximate="none")
    return model, (torch.randint(words, (batch, length)),)


def resnet18(full):
    width, batch, size = (64, 32, 224) if full else (8, 2, 64)
    classes = 1000 if full else 10
    return ResNet18(width, classes), (torch.randn(batch, 3, size, size), torch.randint(classes, (batch,)))


def vit(full):
    size, patch, batch = (224, 16, 32) if full else (32, 8, 8)
    width, heads, layers, classes = (768, 12, 12, 1000) if full else (64, 4, 3, 10)
    model = VisionTransformer(size, patch, width, heads, layers, classes)
    return model, (torch.randn(batch, 3, size, size), torch.randint(classes, (batch,)))


MODELS = {"gpt2": gpt2, "bert": bert, "resnet18": resnet18, "vit": vit}

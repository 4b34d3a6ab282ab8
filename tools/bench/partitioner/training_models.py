"""Four models to train, each small enough to run anywhere and in its full size.

`MODELS[name](full)` gives a module in training mode and its arguments; under FakeTensorMode the full size costs no memory.
"""

import torch
from torch import nn
from torch.nn import functional as F


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

    def forward(self, image, label):
        return F.cross_entropy(self.head(self.blocks(self.stem(image)).mean((2, 3))), label)


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

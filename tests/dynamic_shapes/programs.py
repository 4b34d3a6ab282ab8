"""Whole models whose batch, length or image size varies."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "zoo"))

import models as zoo
from cases import Case


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x).softmax(-1)


class ConvNet(nn.Module):
    """Stride 2 three times, normalization, pooling: sizes that are rounded."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, x):
        return self.layers(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        wide = self.down(x).relu()
        deep = self.deep(nn.functional.max_pool2d(wide, 2)).relu()
        return self.out(torch.cat([wide, self.up(deep)], 1))


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(40, 8) for _ in range(3))
        self.dense = nn.Linear(13, 8)
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers, ids):
        rows = [self.dense(numbers).relu()] + [t(ids[:, i]) for i, t in enumerate(self.tables)]
        stacked = torch.stack(rows, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        first, second = torch.triu_indices(4, 4, 1)
        return self.top(torch.cat([rows[0], products[:, first, second]], 1)).sigmoid()


class Tagger(nn.Module):
    """An LSTM, length first, of the operator that nn.LSTM calls on a CPU: PyTorch exports nn.LSTM itself
    for one length only."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 6)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        lstm, state = self.lstm, x.new_zeros(1, x.size(1), 6)
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        kind, layers, has_bias = 2, 1, True
        hidden, *_ = torch.ops.aten.mkldnn_rnn_layer.default(
            x, *weights, state, state, False, [], kind, 6, layers, has_bias, False, False, False)
        return self.out(hidden)


class Keywords(nn.Module):
    """Calls a model of transformers by position, and returns its first result."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


BATCH = (1, 512)


def text(name, is_automatic=False):
    """A model of the zoo on token numbers (and a mask), batch and length varying."""
    module, _, given = zoo.MODELS[name][1]()
    names = [keyword for keyword in given if torch.is_tensor(given[keyword])]

    def inputs(batch, length):
        ids = zoo.tokens(batch, length)
        masks = torch.ones(batch, length, dtype=torch.long)
        return tuple(masks if "mask" in keyword else ids for keyword in names)

    batch, length = Dim("batch", min=1, max=512), Dim("length", min=2, max=48)
    if is_automatic:
        batch = length = Dim.AUTO
    ranges = {"batch": (2 if is_automatic else 1, 512), "length": (2, 48)}  # PyTorch's begin at 2.
    return Case(Keywords(module, *names), inputs, (tuple({0: batch, 1: length} for _ in names),), ranges,
                {"batch": 3, "length": 11}, most=2048)


def images(module, low, high, multiple=1, most=512 * 16 * 16):
    batch = Dim("batch", min=1, max=512)
    height, width = Dim("height", min=low, max=high), Dim("width", min=low, max=high)
    dims = ({0: batch, 2: multiple * height, 3: multiple * width},)
    return Case(module, lambda n, h, w: (torch.randn(n, 3, multiple * h, multiple * w),),
                (dims,) if isinstance(module, Keywords) else dims,
                {"n": BATCH, "h": (low, high), "w": (low, high)},
                {"n": 2, "h": low + 9, "w": low + 14}, most=most)


def resnet():
    """ResNet-18 with all of its layers and widths, on images of which more than one pixel is left."""
    module, _, _ = zoo.vision("ResNet", "ForImageClassification", layer_type="basic", embedding_size=64,
                              hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])()
    return images(Keywords(module, "pixel_values"), 33, 64, most=512 * 33 * 33)


def vit():
    module, _, _ = zoo.MODELS["vit"][1]()
    return Case(Keywords(module, "pixel_values"), lambda n: (zoo.image(batch=n),), (({0: Dim.AUTO},),),
                {"n": (2, 512)}, {"n": 3})


def t5():
    module, _, _ = zoo.MODELS["t5"][1]()
    batch, length, target = Dim("batch", min=1, max=512), Dim("length", min=2, max=40), Dim("target", min=2, max=40)
    return Case(Keywords(module, "input_ids", "decoder_input_ids"),
                lambda n, s, t: (zoo.tokens(n, s), zoo.tokens(n, t)),
                (({0: batch, 1: length}, {0: batch, 1: target}),),
                {"n": BATCH, "s": (2, 40), "t": (2, 40)}, {"n": 2, "s": 11, "t": 7}, most=12800)


def transformer():
    return Case(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), lambda n, s: (torch.randn(n, s, 32),),
                ({0: Dim.AUTO, 1: Dim.AUTO},), {"n": (2, 512), "s": (2, 128)}, {"n": 3, "s": 7}, most=8192)


def lstm():
    length, batch = Dim("length", min=1, max=64), Dim("batch", min=1, max=512)
    return Case(Tagger(), lambda s, n: (torch.randn(s, n, 8),), ({0: length, 1: batch},),
                {"s": (1, 64), "n": BATCH}, {"s": 9, "n": 4})


# What ./dev test runs.
QUICK = ("mlp", "convolutions", "lstm", "gpt2", "transformer", "t5")


def programs():
    batch = Dim("batch", min=1, max=512)
    return {
        "mlp": lambda: Case(Mlp(), lambda n: (torch.randn(n, 16),), ({0: batch},), {"n": BATCH},
                            {"n": 4}, at=tuple({"n": n} for n in range(1, 513))),
        "transformer": transformer,
        "convolutions": lambda: images(ConvNet(), 16, 120),
        "unet": lambda: images(UNet(), 4, 40, multiple=2),
        "recommender": lambda: Case(
            Recommender(), lambda n: (torch.randn(n, 13), torch.randint(0, 40, (n, 3))),
            ({0: batch}, {0: batch}), {"n": BATCH}, {"n": 6}),
        "lstm": lstm,
        "gpt2": lambda: text("gpt2"),
        "llama": lambda: text("llama", is_automatic=True),
        "bert": lambda: text("bert"),
        "opt": lambda: text("opt"),
        "gpt_neox": lambda: text("gpt_neox"),
        "distilbert": lambda: text("distilbert"),
        "t5": t5,
        "vit": vit,
        "resnet": resnet,
    }

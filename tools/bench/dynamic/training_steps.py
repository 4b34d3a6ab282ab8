"""Training steps of a function whose sizes vary, beside one that was compiled for each size, and torch.compile."""

import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

import models

PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "build" / "bin" / "kiln-dynamic-training"
PEERS = ("eager", "torch.compile")
ROUNDS = 15
SIZES = {"mlp": [64, 16, 33, 100, 256], "gpt2": [128, 32, 57, 64, 100]}


def perceptron():
    layers = [part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())]
    module = nn.Sequential(*layers)
    return module, lambda x: module(x).square().mean(), lambda rows: torch.randn(rows, 256)


def gpt2():
    module, _ = models.gpt2()
    return module, lambda x: module(x).logsumexp(-1).mean(), lambda words: torch.randint(50257, (1, words))


class Peer:
    """The same in PyTorch, by torch.compile(dynamic=True)."""

    def __init__(self, name):
        torch.manual_seed(0)
        self.module, loss, self.input = {"mlp": perceptron, "gpt2": gpt2}[name]()
        self.loss = torch.compile(loss, dynamic=True)

    def step(self, size):
        x = self.input(size)
        begin = time.perf_counter()
        self.module.zero_grad()
        self.loss(x).backward()
        return (time.perf_counter() - begin) * 1e3


def measure(name, options):
    """Milliseconds of each at each size: the median, taken in turns."""
    with subprocess.Popen([PROGRAM, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(line):
            print(line, file=process.stdin, flush=True)
            return float(process.stdout.readline())

        steps = {which: (lambda size, which=which: ask(f"{which} {size}")) for which in ("eager", "fixed", "dynamic")}
        if "torch.compile" in options.peers:
            with torch.enable_grad():
                steps["torch.compile"] = Peer(name).step
        result = {"name": f"{name}, training", "what": {"mlp": "rows", "gpt2": "words"}[name], "sizes": {}}
        with torch.enable_grad():
            for size in SIZES[name][: options.sizes]:
                print(f"{name}, training: {size}", file=sys.stderr, flush=True)
                for step in steps.values():
                    step(size)
                taken = {which: [] for which in steps}
                for _ in range(ROUNDS if name == "gpt2" else 20 * ROUNDS):
                    for which, step in steps.items():
                        taken[which].append(step(size))
                middle = {which: statistics.median(times) for which, times in taken.items()}
                result["sizes"][size] = {
                    "ms": middle, "ratio": middle["dynamic"] / middle["fixed"],
                    "peers": {peer: middle[peer] / middle["dynamic"] for peer in steps if peer in PEERS},
                    "saved": ask(f"saved dynamic {size}") / ask(f"saved fixed {size}")}
        process.stdin.close()
    return result

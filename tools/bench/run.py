"""./dev bench: Kiln and its peers side by side, in one process, taking turns.

usage: run.py [NAME ...] [--seconds S] [--json FILE] [--svg FILE] [--no-compile]

Every candidate runs the same weights on the same inputs: eager, torch.compile, PyTorch's AOTInductor, and Kiln's package,
loaded by PyTorch's own loader. They alternate in short slices, so that a noisy machine hurts all alike; a ratio is the
median over the rounds of peer / Kiln, with its spread.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = ROOT / "build" / "bin" / "kiln"


class Pointwise(nn.Module):
    def forward(self, x):
        return F.softmax(F.gelu(x * 1.5 + 2).tanh() * x.sigmoid(), -1) - x.exp().log1p()


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(1024), nn.LayerNorm(1024)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)) + x)


def mlp(width, layers):
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())])


def norm_mlp(width, layers):
    parts = [(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width)) for _ in range(layers)]
    return nn.Sequential(*[part for group in parts for part in group])


MODELS = {
    "pointwise": ("gelu, tanh, sigmoid, softmax, log1p 512x4096", Pointwise, (512, 4096)),
    "norms": ("layer norm, gelu, add, layer norm 4096x1024", Norms, (4096, 1024)),
    "mlp": ("4 x (linear, relu) 1x256", lambda: mlp(256, 4), (1, 256)),
    "norm-mlp": ("4 x (linear, relu, layer norm) 64x512", lambda: norm_mlp(512, 4), (64, 512)),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def candidates(name, folder, with_compile):
    """The callables to compare, and the seconds each took to be made."""
    torch.manual_seed(0)
    _, make, shape = MODELS[name]
    model, x = make().eval(), torch.randn(shape)
    calls, seconds = {"eager": lambda: model(x)}, {}

    archive, package = folder / f"{name}.pt2", folder / f"{name}-kiln.pt2"
    torch.export.save(torch.export.export(model, (x,)), archive)
    say(f"{name}: Kiln")
    command = [KILN, "compile", archive, "-o", package, "--no-cache"]
    _, seconds["kiln"] = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    kiln = torch._inductor.aoti_load_package(str(package))
    calls["kiln"] = lambda: kiln(x)

    if with_compile:
        say(f"{name}: torch.compile")
        compiled = torch.compile(model)
        _, seconds["torch.compile"] = timed(lambda: compiled(x))
        calls["torch.compile"] = lambda: compiled(x)
        say(f"{name}: AOTInductor")
        exported = torch.export.export(model, (x,))
        path, seconds["AOTInductor"] = timed(
            lambda: torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / f"{name}-aoti.pt2"))
        )
        inductor = torch._inductor.aoti_load_package(path)
        calls["AOTInductor"] = lambda: inductor(x)

    expected = model(x)
    for label, call in calls.items():
        if not torch.allclose(call(), expected, 1e-3, 1e-4):
            raise SystemExit(f"{name}: {label} is wrong by {(call() - expected).abs().max()}")
    return calls, seconds


def alternate(calls, seconds):
    """Rounds of milliseconds per call, the candidates taking turns."""
    repeats = {}
    for label, call in calls.items():
        call()
        _, once = timed(call)
        repeats[label] = max(1, int(0.03 / max(once, 1e-6)))
    rounds = {label: [] for label in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds["eager"]) < 5:
        for label, call in calls.items():
            _, taken = timed(lambda: [call() for _ in range(repeats[label])])
            rounds[label].append(taken / repeats[label] * 1e3)
    return rounds


def summarize(name, rounds, seconds):
    row = {"name": name, "what": MODELS[name][0], "ms": {}, "ratio": {}, "spread": {}, "compile_s": seconds}
    for label, times in rounds.items():
        row["ms"][label] = min(times)
        ratios = sorted(peer / ours for peer, ours in zip(times, rounds["kiln"]))
        row["ratio"][label] = statistics.median(ratios)
        row["spread"][label] = [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]]
    return row


def table(rows):
    peers = [label for label in rows[0]["ms"] if label != "kiln"]
    lines = ["milliseconds per call, and how many times as long as Kiln (10th to 90th percentile)", ""]
    for row in rows:
        lines.append(f"{row['name']}: {row['what']}")
        lines.append(f"  {'Kiln':14s} {row['ms']['kiln']:9.3f} ms   {'':24s} compiled in {row['compile_s']['kiln']:.1f} s")
        for label in peers:
            low, high = row["spread"][label]
            made = f"compiled in {row['compile_s'][label]:.1f} s" if label in row["compile_s"] else ""
            lines.append(f"  {label:14s} {row['ms'][label]:9.3f} ms   {row['ratio'][label]:5.2f}x ({low:.2f} to {high:.2f})   {made}")
    return "\n".join(lines)


def picture(rows):
    """Ratio bars: how much longer each peer takes than Kiln."""
    body, y = [], 20
    most = max(ratio for row in rows for ratio in row["ratio"].values())
    for row in rows:
        body.append(f'<text x="16" y="{y + 12}" class="title">{row["what"]}</text>')
        y += 22
        for label, ratio in row["ratio"].items():
            width = max(2, 380 * ratio / most)
            kind = "ours" if label == "kiln" else "peer"
            body.append(
                f'<text x="130" y="{y + 14}" text-anchor="end">{label}</text>'
                f'<rect x="140" y="{y}" width="{width:.0f}" height="18" rx="3" class="{kind}"/>'
                f'<text x="{148 + width:.0f}" y="{y + 14}">{ratio:.2f}x, {row["ms"][label]:.3f} ms</text>'
            )
            y += 23
        y += 14
    style = (
        "text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.ours{fill:#c4501b}.peer{fill:#b9b4ab}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{y}" viewBox="0 0 680 {y}"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fffdf9"/>{"".join(body)}</svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--seconds", type=float, default=6, help="for each model")
    parser.add_argument("--json", default="build/bench.json")
    parser.add_argument("--svg", default="build/bench.svg")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile and AOTInductor out: they take minutes")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]}; known are {', '.join(MODELS)}")
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name in arguments.names or MODELS:
            calls, seconds = candidates(name, pathlib.Path(folder), not arguments.no_compile)
            rows.append(summarize(name, alternate(calls, arguments.seconds), seconds))
    print(table(rows))
    pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")
    pathlib.Path(arguments.svg).write_text(picture(rows))
    print(f"\n{arguments.json} and {arguments.svg} have the same as data and as a picture")


if __name__ == "__main__":
    main()

"""./dev bench container: Kiln's container and runner against PyTorch's, in one process.

usage: run.py [--seconds S] [--megabytes N] [--json FILE]

A small program (a linear layer on 1x64) and one with many weights are compiled by Kiln and by AOTInductor. Each side's
runner loads its own side's package; they take turns. A ratio above 1 is in Kiln's favour.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = ROOT / "build" / "bin"


class Weights(nn.Module):
    """Many bytes of weights, of which a call reads few."""

    def __init__(self, megabytes):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(megabytes * 1000, 250))

    def forward(self, x):
        return x + self.table[0, :64]


def packages(folder, name, module, x):
    exported = torch.export.export(module.eval(), (x,))
    archive, kiln, peer = (folder / f"{name}{ending}.pt2" for ending in ("", "-kiln", "-peer"))
    torch.export.save(exported, archive)
    subprocess.run([BIN / "kiln", "compile", archive, "-o", kiln, "--no-cache"], check=True, capture_output=True)
    torch._inductor.aoti_compile_and_package(exported, package_path=str(peer))
    return kiln, peer


# What is shown: the part, the number in it, and whether more of it is better.
ROWS = [
    ("one call, median", "overhead", "p50_us", "us", False),
    *[
        row
        for instances in (1, 2, 4, 8)
        for row in (
            (f"16 clients, {instances} instances", f"throughput {instances}", "calls_per_s", "calls/s", True),
            (f"16 clients, {instances} instances, p99", f"throughput {instances}", "p99_us", "us", False),
        )
    ],
    ("update and swap under load, median", "swap", "p50_us", "us", False),
    ("load of the large package", "load", "ms", "ms", False),
]


def table(result, megabytes):
    lines = [f"{'':36s} {'Kiln':>12s} {'PyTorch':>12s}          ratio (large package: {megabytes} MB of weights)"]
    for title, part, number, unit, more in ROWS:
        ours, theirs = ([run[number] for run in result[side][part]] for side in ("kiln", "pytorch"))
        ratios = sorted(a / b if more else b / a for a, b in zip(ours, theirs))
        spread = f"{statistics.median(ratios):7.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        lines.append(f"{title:36s} {statistics.median(ours):12.1f} {statistics.median(theirs):12.1f} {unit:8s} {spread}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="for each measurement, three times")
    parser.add_argument("--megabytes", type=int, default=500, help="of weights in the large package")
    parser.add_argument("--json", default="build/bench-container.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = pathlib.Path(name)
        small = packages(folder, "small", nn.Linear(64, 64), torch.ones(1, 64))
        large = packages(folder, "large", Weights(arguments.megabytes), torch.ones(1, 64))
        command = [BIN / "kiln-container-bench", str(arguments.seconds), *small, *large]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ)).stdout
    result = json.loads(answer)
    print(table(result, arguments.megabytes))
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

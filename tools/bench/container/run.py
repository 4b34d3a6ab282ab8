"""./dev bench container: Kiln's container and runner against PyTorch's, in one process.

usage: run.py [--seconds S] [--rounds N] [--megabytes N] [--check] [--json FILE]

A small program (a linear layer on 1x64) and one with many weights are compiled by Kiln and by AOTInductor. Each side's
runner loads its own side's package; for each row they take turns. A number is the median of the rounds, a ratio the
median of the ratios of each round, with the least and the greatest; above 1 is in Kiln's favour. Constants are
swapped while 16 clients call a thousand times a second each, on both sides. --check fails if a target is missed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
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
    ("update and swap under load, p99", "swap", "p99_us", "us", False),
    ("load of the large package", "load", "ms", "ms", False),
]

# The least ratio that is good enough, by the number that a row shows.
TARGETS = {("overhead", "p50_us"): 2, ("load", "ms"): 10}
TARGETS |= {(f"throughput {n}", "calls_per_s"): 1 for n in (1, 2, 4, 8)}
TARGETS |= {(f"throughput {n}", "p99_us"): 2 for n in (1, 2, 4, 8)}


def numbers(result, part, number, more):
    """Each side's numbers and the ratios, sorted."""
    ours, theirs = ([run[number] for run in result[side][part]] for side in ("kiln", "pytorch"))
    return ours, theirs, sorted(a / b if more else b / a for a, b in zip(ours, theirs))


def missed(result):
    for title, part, number, _, more in ROWS:
        target = TARGETS.get((part, number), 0)
        ratio = statistics.median(numbers(result, part, number, more)[2])
        if ratio < target:
            yield f"{title}: {ratio:.2f}x, and {target}x is wanted"


def table(result, megabytes):
    lines = [f"{'':36s} {'Kiln':>12s} {'PyTorch':>12s}          ratio (large package: {megabytes} MB of weights)"]
    for title, part, number, unit, more in ROWS:
        ours, theirs, ratios = numbers(result, part, number, more)
        spread = f"{statistics.median(ratios):7.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        lines.append(f"{title:36s} {statistics.median(ours):12.1f} {statistics.median(theirs):12.1f} {unit:8s} {spread}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each side in each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    parser.add_argument("--megabytes", type=int, default=500, help="of weights in the large package")
    parser.add_argument("--json", default="build/bench-container.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = pathlib.Path(name)
        small = packages(folder, "small", nn.Linear(64, 64), torch.ones(1, 64))
        large = packages(folder, "large", Weights(arguments.megabytes), torch.ones(1, 64))
        how = [str(arguments.seconds), str(arguments.rounds)]
        command = [BIN / "kiln-container-bench", *how, *small, *large]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ)).stdout
    result = json.loads(answer)
    print(table(result, arguments.megabytes))
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    if failures := list(missed(result)):
        print("\n".join(failures))
        sys.exit(1 if arguments.check else 0)


if __name__ == "__main__":
    main()

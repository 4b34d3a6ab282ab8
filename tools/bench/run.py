"""./dev bench: Kiln and its peers side by side, in one process, taking turns.

usage: run.py [NAME ...] [--quick] [--check] [--seconds S] [--threads N] [--peers A,B] [--json FILE] [--svg FILE]

Every candidate runs the same weights on the same inputs: eager, TorchScript (traced and frozen), torch.compile, PyTorch's
AOTInductor, and Kiln's package, loaded by PyTorch's own loader. They alternate in short slices, so that a noisy machine
hurts all alike; a ratio is the median over the rounds of peer / Kiln, with its spread.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from models import MODELS

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = ROOT / "build" / "bin" / "kiln"
PEERS = ["eager", "TorchScript", "torch.compile", "AOTInductor"]
QUICK = ["pointwise", "norms", "mlp", "norm-mlp"]
# What a row must reach against the best peer, all rows on the geometric mean, and compiling against AOTInductor.
SLOWEST, MEAN, COMPILE = 1.0, 1.3, 15.0


def say(text):
    print(text, file=sys.stderr, flush=True)


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def frozen_script(model, arguments):
    scripted = torch.jit.freeze(torch.jit.trace(model, arguments, strict=False))
    for _ in range(3):  # its executor optimises while it is called
        scripted(*arguments)
    return scripted


def load(package):
    return timed(lambda: torch._inductor.aoti_load_package(str(package)))


class Candidates:
    """The callables to compare, and what it took to make them."""

    def __init__(self, name, folder, peers):
        torch.manual_seed(0)
        model, arguments = MODELS[name].make()
        model = model.eval()
        self.name, self.calls, self.compile_s, self.load_s, self.megabytes = name, {}, {}, {}, {}
        self.skipped = {}
        exported = torch.export.export(model, arguments)
        archive, package = folder / f"{name}.pt2", folder / f"{name}-kiln.pt2"
        torch.export.save(exported, archive)
        self.add("kiln", arguments, lambda: self.kiln(archive, package))
        makers = {
            "eager": lambda: model,
            "TorchScript": lambda: frozen_script(model, arguments),
            "torch.compile": lambda: self.compiled(model, arguments),
            "AOTInductor": lambda: self.inductor(exported, folder / f"{name}-aoti.pt2"),
        }
        for peer in peers:
            try:
                self.add(peer, arguments, makers[peer])
            except Exception as error:  # a peer that cannot is a result, too
                self.skipped[peer] = str(error).strip().splitlines()[0][:100]
        self.compare(model(*arguments))

    def add(self, label, arguments, make):
        say(f"{self.name}: {label}")
        call = make()
        self.calls[label] = lambda: call(*arguments)

    def keep_package(self, label, package):
        call, self.load_s[label] = load(package)
        self.megabytes[label] = package.stat().st_size / 1e6
        return call

    def kiln(self, archive, package):
        command = [KILN, "compile", archive, "-o", package, "--no-cache"]
        _, self.compile_s["kiln"] = timed(lambda: subprocess.run(command, check=True, capture_output=True))
        return self.keep_package("kiln", package)

    def compiled(self, model, arguments):
        call = torch.compile(model)
        _, self.compile_s["torch.compile"] = timed(lambda: call(*arguments))
        return call

    def inductor(self, exported, package):
        work = lambda: torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
        _, self.compile_s["AOTInductor"] = timed(work)
        return self.keep_package("AOTInductor", package)

    def compare(self, expected):
        for label, call in self.calls.items():
            found = call()
            found = found[0] if isinstance(found, (list, tuple)) else found
            if not torch.allclose(found, expected, 1e-3, 1e-3 * expected.abs().max().item()):
                raise SystemExit(f"{self.name}: {label} is wrong by {(found - expected).abs().max()}")


def alternate(calls, seconds):
    """Rounds of milliseconds per call, the candidates taking turns."""
    repeats = {}
    for label, call in calls.items():
        call()
        _, once = timed(call)
        repeats[label] = max(1, int(0.03 / max(once, 1e-6)))
    rounds = {label: [] for label in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds["kiln"]) < 5:
        for label, call in calls.items():
            _, taken = timed(lambda: [call() for _ in range(repeats[label])])
            rounds[label].append(taken / repeats[label] * 1e3)
    return rounds


def summarize(made, rounds):
    row = {"name": made.name, "what": MODELS[made.name].what, "ms": {}, "ratio": {}, "spread": {}}
    row |= {"compile_s": made.compile_s, "load_s": made.load_s, "megabytes": made.megabytes, "skipped": made.skipped}
    for label, times in rounds.items():
        row["ms"][label] = min(times)
        ratios = sorted(peer / ours for peer, ours in zip(times, rounds["kiln"]))
        row["ratio"][label] = statistics.median(ratios)
        row["spread"][label] = [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]]
    return row


def best_ratio(row):
    return min(ratio for label, ratio in row["ratio"].items() if label != "kiln")


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def made_in(row, label):
    parts = []
    if label in row["compile_s"]:
        parts.append(f"compiled in {row['compile_s'][label]:.1f} s")
    if label in row["load_s"]:
        parts.append(f"loaded in {row['load_s'][label] * 1e3:.0f} ms, {row['megabytes'][label]:.1f} MB")
    return ", ".join(parts)


def table(rows):
    lines = ["milliseconds per call, and how many times as long as Kiln (10th to 90th percentile)", ""]
    for row in rows:
        lines.append(f"{row['name']}: {row['what']}")
        lines.append(f"  {'Kiln':14s} {row['ms']['kiln']:9.3f} ms   {'':22s}  {made_in(row, 'kiln')}".rstrip())
        for label in row["ratio"]:
            if label == "kiln":
                continue
            low, high = row["spread"][label]
            spread = f"{row['ratio'][label]:5.2f}x ({low:.2f} to {high:.2f})"
            lines.append(f"  {label:14s} {row['ms'][label]:9.3f} ms   {spread:22s}  {made_in(row, label)}".rstrip())
        for label, reason in row["skipped"].items():
            lines.append(f"  {label:14s} cannot: {reason}")
    mean = geometric_mean(best_ratio(row) for row in rows)
    lines += ["", f"against the best peer of each row: {mean:.2f}x on the geometric mean"]
    return "\n".join(lines)


def missed(rows):
    """The targets that these rows do not reach, in words."""
    result = [
        f"{row['name']}: {best_ratio(row):.2f}x of the best peer, wanted {SLOWEST}x"
        for row in rows
        if best_ratio(row) < SLOWEST
    ]
    mean = geometric_mean(best_ratio(row) for row in rows)
    if mean < MEAN:
        result.append(f"geometric mean {mean:.2f}x, wanted {MEAN}x")
    for row in rows:
        seconds = row["compile_s"]
        if "AOTInductor" in seconds and seconds["AOTInductor"] / seconds["kiln"] < COMPILE:
            times = seconds["AOTInductor"] / seconds["kiln"]
            result.append(f"{row['name']}: compiles {times:.1f}x as fast as AOTInductor, wanted {COMPILE:.0f}x")
    return result


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
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--check", action="store_true", help="fail where a target of docs/performance.md is missed")
    parser.add_argument("--seconds", type=float, default=6, help="for each model")
    parser.add_argument("--threads", type=int, default=0, help="for all of them; the machine's by default")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of %(default)s")
    parser.add_argument("--json", default="build/bench.json")
    parser.add_argument("--svg", default="build/bench.svg")
    arguments = parser.parse_args()
    peers = [peer for peer in arguments.peers.split(",") if peer]
    for given, known in ((arguments.names, MODELS), (peers, PEERS)):
        for name in given:
            if name not in known:
                parser.error(f"there is no {name}; known are {', '.join(known)}")
    if not peers:
        parser.error("without a peer there is nothing to compare with")
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name in arguments.names or (QUICK if arguments.quick else MODELS):
            made = Candidates(name, pathlib.Path(folder), peers)
            rows.append(summarize(made, alternate(made.calls, arguments.seconds)))
    print(table(rows))
    pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")
    pathlib.Path(arguments.svg).write_text(picture(rows))
    print(f"\n{arguments.json} and {arguments.svg} have the same as data and as a picture")
    misses = missed(rows) if arguments.check else []
    for miss in misses:
        say(f"missed: {miss}")
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()

"""./dev bench: Kiln and its peers side by side, in one process, taking turns.

usage: run.py [NAME ...] [--quick] [--check] [--seconds S] [--threads N] [--dtype T] [--clock C] [--peers A,B] [--json FILE]
              [--svg FILE]

Every candidate runs the same weights on the same inputs: eager, TorchScript (traced and frozen), torch.compile, PyTorch's
AOTInductor, and Kiln's package, loaded by PyTorch's own loader. They alternate in short slices, so that a noisy machine
hurts all alike; a ratio is the median over the rounds of peer / Kiln, with its spread. `--clock cpu` counts the seconds
that the process computed instead of those that went by, which a busy machine hardly changes; use it with one thread.

Compiling is timed from a process that has loaded libtorch to the file on disk, for all of them: AOTInductor in this one,
from the exported program in memory; Kiln in its own, from the archive on disk, without its start.
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
from patterns import PATTERNS

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = ROOT / "build" / "bin" / "kiln"
PEERS = ["eager", "TorchScript", "torch.compile", "AOTInductor"]
# Those that take minutes to compile, or give up being updated: only if they are asked for.
MORE_PEERS = ["max-autotune", "AOTInductor-frozen"]
QUICK = ["pointwise", "norms", "mlp", "norm-mlp"]
KNOWN = MODELS | PATTERNS
# Names for many.
GROUPS = {"models": list(MODELS), "codegen": ["pointwise", "norms", *PATTERNS]}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# What a row must reach against the best peer, all rows on the geometric mean, and compiling against AOTInductor.
SLOWEST, MEAN, COMPILE = 1.0, 1.3, 15.0


def say(text):
    print(text, file=sys.stderr, flush=True)


def timed(work, clock=time.perf_counter):
    start = clock()
    result = work()
    return result, clock() - start


def converted(value, dtype):
    """A model or an argument with its floating point numbers as `dtype`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    return value.to(dtype)


def frozen_script(model, arguments):
    scripted = torch.jit.freeze(torch.jit.trace(model, arguments, strict=False))
    for _ in range(3):  # its executor optimises while it is called
        scripted(*arguments)
    return scripted


def load(package):
    return timed(lambda: torch._inductor.aoti_load_package(str(package)))


class Candidates:
    """The callables to compare, and what it took to make them."""

    def __init__(self, name, folder, peers, dtype):
        torch.manual_seed(0)
        model, arguments = KNOWN[name].make()
        model = converted(model.eval(), dtype)
        arguments = tuple(converted(argument, dtype) for argument in arguments)
        self.tolerance = 1e-3 if dtype == torch.float32 else 5e-2
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
            "max-autotune": lambda: self.compiled(model, arguments, mode="max-autotune"),
            "AOTInductor": lambda: self.inductor(exported, folder / f"{name}-aoti.pt2"),
            "AOTInductor-frozen": lambda: self.inductor(exported, folder / f"{name}-frozen.pt2", freezing=True),
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
        command = [KILN, "compile", archive, "-o", package, "--no-cache", "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        self.compile_s["kiln"] = json.loads(done.stdout)["total_ms"] / 1e3
        return self.keep_package("kiln", package)

    def compiled(self, model, arguments, **options):
        torch._dynamo.reset()
        call = torch.compile(model, **options)
        _, self.compile_s[options.get("mode", "torch.compile")] = timed(lambda: call(*arguments))
        return call

    def inductor(self, exported, package, **configs):
        label = "AOTInductor-frozen" if configs else "AOTInductor"
        work = lambda: torch._inductor.aoti_compile_and_package(
            exported, package_path=str(package), inductor_configs=configs
        )
        _, self.compile_s[label] = timed(work)
        return self.keep_package(label, package)

    def compare(self, expected):
        expected = listed(expected)
        for label, call in self.calls.items():
            for found, wanted in zip(listed(call()), expected, strict=True):
                allowed = self.tolerance * wanted.abs().max().item()
                if not torch.allclose(found, wanted, self.tolerance, allowed):
                    raise SystemExit(f"{self.name}: {label} is wrong by {(found - wanted).abs().max()}")


def listed(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def alternate(calls, seconds, clock):
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
            _, taken = timed(lambda: [call() for _ in range(repeats[label])], clock)
            rounds[label].append(taken / repeats[label] * 1e3)
    return rounds


def summarize(made, rounds):
    row = {"name": made.name, "what": KNOWN[made.name].what, "ms": {}, "ratio": {}, "spread": {}}
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
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*GROUPS, *KNOWN]))
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--check", action="store_true", help="fail where a target of docs/performance.md is missed")
    parser.add_argument("--seconds", type=float, default=6, help="for each model")
    parser.add_argument("--threads", type=int, default=0, help="for all of them; the machine's by default")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"which of %(default)s,{','.join(MORE_PEERS)}")
    parser.add_argument("--json", default="build/bench.json")
    parser.add_argument("--svg", default="build/bench.svg")
    arguments = parser.parse_args()
    peers = [peer for peer in arguments.peers.split(",") if peer]
    names = [name for given in arguments.names for name in GROUPS.get(given, [given])]
    for given, known in ((names, KNOWN), (peers, PEERS + MORE_PEERS)):
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
        for name in names or (QUICK if arguments.quick else MODELS):
            made = Candidates(name, pathlib.Path(folder), peers, DTYPES[arguments.dtype])
            rows.append(summarize(made, alternate(made.calls, arguments.seconds, CLOCKS[arguments.clock])))
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

"""./dev bench: Kiln and its peers side by side, in one process, taking turns.

usage: run.py [NAME ...] [--quick] [--check] [--seconds S] [--minutes M] [--threads N] [--instances N] [--dtype T]
              [--clock C] [--peers A,B] [--before KILN] [--json FILE] [--svg FILE]

Every candidate runs the same weights on the same inputs: eager, TorchScript (traced and frozen), torch.compile, PyTorch's
AOTInductor, ONNX Runtime where it converts, and Kiln's package, loaded by PyTorch's own loader. They alternate in short
slices, so that a noisy machine hurts all alike: each peer runs between two runs of Kiln, and a ratio is the median over
thirty rounds or more of peer / Kiln, with its spread (turns.py).
`--clock cpu` counts the seconds that the process computed instead of those that went by, which a busy machine hardly
changes; use it with one thread.

Compiling is timed from a process that has loaded libtorch to the file on disk, for all of them: AOTInductor in this one,
from the exported program in memory; Kiln in its own, from the archive on disk, without its start.

`--before KILN` compares with the packages that another build of the tool makes, instead of with other compilers; then
`--check` fails where this build's are slower or larger, or compile longer.

Then each package serves, in Kiln's Runner, with 1, 2, 4 … instances; and each candidate starts in a process of its own,
which gives its first result and its peak of memory (fresh.py).

`--check` fails where a target is missed. Without names and without `--quick` it also runs the benchmarks of what a model
does not show: container (call overhead), training, programs (whole training programs), partitioner (bytes saved) and
cache (warm starts).
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import charts
import fresh
import report
from candidates import BEFORE, KNOWN, MORE_PEERS, PEERS, ROOT, STARTS, Candidates
from models import MODELS
from patterns import PATTERNS
from turns import alternate

QUICK = ["pointwise", "norms", "mlp", "norm-mlp"]
# Names for many.
GROUPS = {"models": list(MODELS), "codegen": ["pointwise", "norms", *PATTERNS]}
# Where torch.compile is started from nothing, and again from its cache: each takes half a minute.
COLD_STARTS = ["mlp", "gpt2"]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# Benchmarks of their own, and how they check their targets.
OTHERS = {"container": ["--check"], "training": ["--check"], "programs": ["--check"], "partitioner": [],
          "cache": ["--check"]}


class Progress:
    """A bar that is overwritten on a terminal, lines elsewhere."""

    def __init__(self, total):
        self.total, self.done = total, 0

    def __call__(self, text):
        if not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        full = 24 * self.done // self.total
        bar = "█" * full + "░" * (24 - full)
        print(f"\r\033[K{bar} {self.done}/{self.total} {text}", end="", file=sys.stderr, flush=True)

    def finish(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def start_each(made, dtype, cold, progress):
    """Each in a new process, the best of some; torch.compile twice, from nothing and from what the first one left."""
    threads = torch.get_num_threads()
    result = {}

    def add(label, kind, package=None, **environment):
        progress(f"{made.name}: {label} in a new process")
        found = fresh.start(kind, made.name, dtype, threads, made.inputs, package, **environment)
        if found and found["start_ms"] < result.get(label, found | {"start_ms": math.inf})["start_ms"]:
            result[label] = found

    for _ in range(STARTS):
        add("eager", "eager")
        for label, package in made.packages.items():
            add(label, label, package)
    if cold:
        with tempfile.TemporaryDirectory() as cache:
            environment = {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
            add("torch.compile, cold", "torch.compile", **environment)
            add("torch.compile, again", "torch.compile", **environment)
    return result


def measure(name, folder, arguments, peers, progress):
    dtype = DTYPES[arguments.dtype]
    made = Candidates(name, folder, peers, dtype, progress, arguments.before)
    progress(f"{name}: taking turns")
    row = report.summarize(made, KNOWN[name].what, alternate(made.calls, arguments.seconds, CLOCKS[arguments.clock]))
    if name in MODELS and not arguments.before:
        row["served"] = made.served(min(0.5, arguments.seconds / 4), arguments.instances)
        row["fresh"] = start_each(made, dtype, name in COLD_STARTS and "torch.compile" in peers and not arguments.quick, progress)
    for file in folder.iterdir():  # GPT-2's are half a gigabyte each
        file.unlink()
    return row


def run_others():
    """The other benchmarks, each saying what it found; the names of those that miss a target."""
    misses = []
    for name, options in OTHERS.items():
        print(f"\n## ./dev bench {name}\n", flush=True)
        if subprocess.run([sys.executable, ROOT / "tools" / "bench" / name / "run.py", *options]).returncode != 0:
            misses.append(f"./dev bench {name}: see above")
    return misses


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*GROUPS, *KNOWN]))
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--check", action="store_true", help="fail where a target of docs/performance.md is missed")
    parser.add_argument("--seconds", type=float, default=6, help="for each model")
    parser.add_argument("--minutes", type=float, default=60, help="no model is begun after so many")
    parser.add_argument("--threads", type=int, default=0, help="for all of them; the machine's by default")
    parser.add_argument("--instances", type=int, default=2 * (os.cpu_count() or 1), help="at most, of each package")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"which of %(default)s,{','.join(MORE_PEERS)}")
    parser.add_argument("--before", type=pathlib.Path, metavar="KILN", help="another build's tool, as the only peer")
    parser.add_argument("--json", default="build/bench.json")
    parser.add_argument("--svg", default="build/bench.svg", help="others go beside it: NAME-compile.svg, NAME-scaling.svg")
    arguments = parser.parse_args()
    peers = [peer for peer in arguments.peers.split(",") if peer]
    names = [name for given in arguments.names for name in GROUPS.get(given, [given])]
    for given, known in ((names, KNOWN), (peers, PEERS + MORE_PEERS)):
        for name in given:
            if name not in known:
                parser.error(f"there is no {name}; known are {', '.join(known)}")
    if arguments.before:
        peers = [BEFORE]
    if not peers:
        parser.error("without a peer there is nothing to compare with")
    return arguments, peers, names or (QUICK if arguments.quick else list(MODELS))


def hold_to(threads):
    """torch.set_num_threads does not hold the libraries that libtorch multiplies with: a new start does."""
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    torch.set_num_threads(threads)


def write_pictures(rows, svg):
    drawn = {"": charts.ratio_bars, "-compile": charts.compile_bars}
    if any(row.get("served") for row in rows):
        drawn["-scaling"] = charts.scaling_curves
    for ending, draw in drawn.items():
        svg.with_stem(svg.stem + ending).write_text(draw(rows))


def main():
    arguments, peers, names = parse()
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    if arguments.threads:
        hold_to(arguments.threads)
    end = time.perf_counter() + 60 * arguments.minutes
    rows, misses = [], []
    progress = Progress(len(names))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name in names:
            if time.perf_counter() > end:
                misses.append(f"{name}: not measured within {arguments.minutes:g} minutes")
                continue
            try:
                rows.append(measure(name, pathlib.Path(folder), arguments, peers, progress))
            except subprocess.CalledProcessError as error:
                misses.append(f"{name}: kiln cannot: {(error.stderr or '').strip().splitlines()[-1:]}")
            progress.done += 1
    progress.finish()
    if not rows:
        sys.exit("\n".join(misses))
    print(report.before_table(rows) if arguments.before else report.table(rows))
    for section in (report.service_table, report.start_table):
        if any(row.get("served") for row in rows):
            print("\n" + section(rows))
    pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")
    write_pictures(rows, pathlib.Path(arguments.svg))
    print(f"\n{arguments.json} and {arguments.svg} have the same as data and as pictures", flush=True)
    misses += report.missed_before(rows) if arguments.before else report.missed(rows)
    if arguments.check and not arguments.before and not arguments.quick and not arguments.names:
        misses += run_others()
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(1 if misses and arguments.check else 0)


if __name__ == "__main__":
    main()

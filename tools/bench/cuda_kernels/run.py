"""Times generated CUDA kernels beside torch.compile's, on patterns that memory limits.

    python tools/bench/cuda_kernels/run.py KILN [--only NAME...] [--check] [--json FILE]

Needs a GPU and a torch with CUDA. Each pattern is exported, compiled into a package and loaded by PyTorch's own
loader; both sides are then timed as graphs of some calls, in turns. Prints a table: microseconds, gigabytes a second of
inputs and outputs, how much faster Kiln's kernels are, and how far from float64 each result is.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from patterns import PATTERNS, Program, arguments_of

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
LEAST, MEAN, WORSE = 0.97, 1.0, 1.5
# Slower than LEAST and to stay so for now: docs/cuda.md says why.
WRITTEN_OFF = {("add_transpose", "bf16"), ("add_transpose", "f32"), ("column_sum", "bf16"), ("column_max", "bf16"),
               ("column_max", "f32"), ("full_sum", "bf16"), ("group_norm", "f32"), ("rms_norm", "f32")}
FLOOR = {"bf16": 1e-4, "f32": 1e-6}  # Errors below it are as good as none.


def package_of(kiln, folder, name, kind):
    """The pattern compiled by Kiln, or what it said instead."""
    archive, package = folder / f"{name}.{kind}.pt2", folder / f"{name}.{kind}.kiln.pt2"
    exported = subprocess.run([sys.executable, __file__, "--export", name, kind, str(archive)],
                              capture_output=True, text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    if exported.returncode != 0:
        return None, exported.stderr.strip().splitlines()[-1]
    done = subprocess.run([kiln, "compile", archive, "-o", package, "--device", "cuda", "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["failed"])[-1]
    return package, json.loads(done.stdout)


def export(name, kind, archive):
    program = torch.export.export(Program(name), (arguments_of(name, TYPES[kind], "cpu", empty=True),), strict=False)
    program.example_inputs = None  # Hundreds of megabytes of nothing.
    torch.export.save(program, archive)


class Graph:
    """Some calls of a function, as one launch."""

    def __init__(self, function, arguments, runs=10):
        for _ in range(3):
            function(*arguments)
        torch.cuda.synchronize()
        self.graph, self.runs = torch.cuda.CUDAGraph(), runs
        with torch.cuda.graph(self.graph):
            for _ in range(runs):
                function(*arguments)

    def microseconds(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / self.runs


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def error_of(result, exact):
    """The largest over the results of |result - exact| / |exact|."""
    return max(((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-300)).item()
               for a, b in zip(flat(result), flat(exact)))


def measure(name, kind, package, rounds=20):
    torch.manual_seed(0)
    arguments = arguments_of(name, TYPES[kind], "cuda")
    loaded = torch._inductor.aoti_load_package(str(package))
    ours = lambda *arguments: loaded(list(arguments))
    torch._dynamo.reset()
    theirs = torch.compile(PATTERNS[name])
    result, other = flat(ours(*arguments)), flat(theirs(*arguments))
    exact = PATTERNS[name](*[x.double() if x.is_floating_point() else x for x in arguments])
    line = {"name": name, "type": kind, "bytes": sum(x.nbytes for x in arguments + result),
            "error": error_of(result, exact), "torch_error": error_of(other, exact)}
    del result, other, exact
    graphs = Graph(ours, arguments), Graph(theirs, arguments)
    times = [math.inf, math.inf]
    for _ in range(rounds):
        for side, graph in enumerate(graphs):
            times[side] = min(times[side], graph.microseconds())
    return line | {"us": times[0], "torch_us": times[1], "ratio": times[1] / times[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", help="the command-line tool")
    parser.add_argument("--only", nargs="+", choices=PATTERNS, metavar="NAME", default=list(PATTERNS),
                        help=f"of {', '.join(PATTERNS)}")
    parser.add_argument("--check", action="store_true",
                        help=f"fail if a ratio is below {LEAST} and not written off, their geometric mean below {MEAN}, "
                             f"or an error above {WORSE} times torch.compile's")
    parser.add_argument("--json", help="a file for the numbers")
    options = parser.parse_args()

    lines, failed = [], []
    print(f"{'pattern':<22} {'type':<5} {'Kiln us':>8} {'GB/s':>5} {'torch us':>8} {'GB/s':>5} {'ratio':>6} "
          f"{'kernels':>7} {'calls':>5} {'error':>8} {'torch':>8}")
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        packages = {(name, kind): pool.submit(package_of, options.kiln, pathlib.Path(folder), name, kind)
                    for name in options.only for kind in TYPES}
        for (name, kind), promised in packages.items():
            package, report = promised.result()
            try:
                if package is None:
                    raise RuntimeError(report)
                line = measure(name, kind, package)
            except Exception as error:  # One that fails is a line, and the rest goes on.
                failed.append(name)
                print(f"{name:<22} {kind:<5} failed: {str(error).splitlines()[0][:150]}", flush=True)
                continue
            finally:
                torch.cuda.empty_cache()
            lines.append(line | {"kernels": report["kernels"], "calls": report["extern_calls"]})
            speed = lambda us: f"{us:>8.1f} {line['bytes'] / us / 1e3:>5.0f}"
            print(f"{name:<22} {kind:<5} {speed(line['us'])} {speed(line['torch_us'])} {line['ratio']:>6.2f} "
                  f"{report['kernels']:>7} {report['extern_calls']:>5} {line['error']:>8.1e} {line['torch_error']:>8.1e}",
                  flush=True)
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(lines, indent=1))
    ratios = [line["ratio"] for line in lines]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f}x of torch.compile, least {min(ratios):.2f}x, "
              f"{sum(ratio < LEAST for ratio in ratios)} of {len(ratios)} below {LEAST}x")
    inexact = [line for line in lines if not line["error"] <= WORSE * line["torch_error"] + FLOOR[line["type"]]]
    for line in inexact:
        print(f"{line['name']} in {line['type']} is {line['error']:.1e} from float64, "
              f"torch.compile's {line['torch_error']:.1e}")
    slow = [line for line in lines
            if line["ratio"] < LEAST and (line["name"], line["type"]) not in WRITTEN_OFF]
    for line in slow:
        print(f"{line['name']} in {line['type']} has {line['ratio']:.2f}x of torch.compile's speed")
    if failed or not ratios or (options.check and (slow or mean < MEAN or inexact)):
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export(*sys.argv[2:])
    else:
        main()

"""./dev bench kernels: how long a model of very many different kernels takes to compile.

usage: run.py [--count N] [--minutes M] [--check]

Each kernel is of another width and with another factor, so that no two are alike. What counts is the processor time of
`kiln compile` and its compilers, spread over two cores: a busy machine hardly changes it. Exporting the model takes about
as long as compiling it, and is not counted. `--check` fails where the compile takes more than M minutes.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
KILN = ROOT / "build" / "bin" / "kiln"
CORES = 2


class ManyKernels(torch.nn.Module):
    def forward(self, arguments):
        return [torch.tanh(x) * (0.5 + i) + torch.sin(x) for i, x in enumerate(arguments)]


def compile_once(archive, package):
    """What Kiln says of the compile, and the processor seconds that it and its compilers took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [KILN, "compile", "--no-cache", "--json", archive, "-o", package], check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    inputs = [torch.randn(5, i + 17) for i in range(arguments.count)]
    with tempfile.TemporaryDirectory() as folder:
        archive, package = pathlib.Path(folder) / "many.pt2", pathlib.Path(folder) / "many-kiln.pt2"
        torch.export.save(torch.export.export(ManyKernels(), (inputs,)), archive)
        report, seconds = compile_once(archive, package)
    per_core = seconds / CORES
    print(f"{report['kernels']} kernels: {seconds:.1f} s of processor time, {per_core:.1f} s on each of {CORES} cores;")
    print(f"{report['total_ms'] / 1e3:.1f} s went by on this machine, {report['trace_ms'] / 1e3:.1f} of them to read and trace the archive")
    if report["kernels"] != arguments.count:
        sys.exit(f"missed: {arguments.count} kernels were wanted")
    if arguments.check and per_core > 60 * arguments.minutes:
        sys.exit(f"missed: more than {60 * arguments.minutes:g} s on each of {CORES} cores")


if __name__ == "__main__":
    main()

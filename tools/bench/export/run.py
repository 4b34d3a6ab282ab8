"""./dev bench export: what tracing a program and reading an archive cost.

usage: run.py [--rounds N] [--megabytes N] [--json FILE]

A transformer of 12 layers runs forward and backward by turns, eagerly and under the tracer (one thread,
processor time); then each once in a process of its own, for the memory at its peak. An archive with many weights, of which its program reads few, is loaded.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCH = ROOT / "build" / "bin" / "kiln-export-bench"
sys.path.insert(0, str(ROOT / "tools" / "bench" / "container"))

from run import Weights


def measured(*arguments):
    done = subprocess.run([BENCH, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def peak_megabytes(mode):
    child = subprocess.Popen([BENCH, mode])
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, f"{mode} failed"
    return usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=500, help="of weights in the archive")
    parser.add_argument("--json", default="build/bench-export.json")
    arguments = parser.parse_args()

    trace = measured("compare", str(arguments.rounds))
    memory = {mode: peak_megabytes(mode) for mode in ("eager", "trace")}
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        archive = pathlib.Path(name) / "large.pt2"
        torch.export.save(torch.export.export(Weights(arguments.megabytes).eval(), (torch.ones(1, 64),)), archive)
        load = measured("load", str(archive))

    print(f"12-layer transformer, forward and backward, {trace['operators']} operators")
    print(f"  eager                 {trace['eager_ms']:8.1f} ms")
    print(f"  traced                {trace['trace_ms']:8.1f} ms")
    print(f"  beyond eager          {trace['us_per_operator']:8.1f} us an operator (at most 15 wanted)")
    print(f"  peak memory           {memory['trace'] / memory['eager']:8.2f}x eager's "
          f"{memory['eager']:.0f} MB, the process and its libraries included (at most 1.1 wanted)")
    print(f"archive with {arguments.megabytes} MB of weights that are not touched")
    print(f"  load                  {load['ms']:8.1f} ms, the first time {load['first_ms']:.1f} ms (under 100 wanted)")
    result = {"trace": trace, "peak_megabytes": memory, "load": load}
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

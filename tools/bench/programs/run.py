"""./dev bench programs: the training programs of examples/programs, eager and compiled.

usage: run.py [NAME ...] [--seconds S] [--threads N] [--check] [--json FILE]

Each program runs in a process of its own, from an empty cache. In it eager and compiled train beside each other and take
turns in slices of some steps; a ratio is the median over the turns, each against the two of the other around it
(turns.py), and a time is the shortest. A step is all of it: data, forward, backward, optimizer, and evaluation where a
program has one. The first step compiles; what is compiled later, for a smaller batch or for evaluation, is in the
first 20 steps, which are not counted.

`--check` fails where a target is missed: each program as fast as eager, 1.5x on the geometric mean, the first step
within two seconds. The mean is asked for only where all programs are measured.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from report import geometric_mean  # noqa: E402: it stands one folder up
from turns import summary  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "bin" / "programs"
SLOWEST, MEAN, FIRST_MS = 1.0, 1.5, 2000.0


def known():
    return subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True).stdout.split()


def measure(name, arguments):
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, KILN_CACHE_DIR=cache, KILN_LOG="warning,progress=off")
        if arguments.threads:
            environment["OMP_NUM_THREADS"] = str(arguments.threads)
        answer = subprocess.run([PROGRAM, name, "--turns", str(arguments.seconds)], check=True, stdout=subprocess.PIPE,
                                text=True, env=environment).stdout
    found = json.loads(answer)
    compiled = found["compiled_ms"]
    turns = {"eager": list(zip(found["eager_ms"], compiled, compiled[1:]))}
    return {"name": name, **summary(turns), **{key: found[key] for key in ("first_ms", "eager_first_ms", "versions")}}


def table(rows):
    lines = ["milliseconds a training step, how many times as fast as eager (10th to 90th percentile), the first step",
             "with all that it compiles, and versions compiled in the end", "",
             f"  {'':10s} {'eager':>8s} {'compiled':>9s}   {'ratio':22s} {'first step':>10s} {'versions':>9s}"]
    for row in rows:
        low, high = row["spread"]["eager"]
        ratio = f"{row['ratio']['eager']:5.2f}x ({low:.2f} to {high:.2f})"
        lines.append(f"  {row['name']:10s} {row['ms']['eager']:8.2f} {row['ms']['kiln']:9.2f}   {ratio:22s} "
                     f"{row['first_ms'] / 1e3:8.2f} s {row['versions']:9d}")
    return "\n".join(lines + ["", f"  {geometric_mean(row['ratio']['eager'] for row in rows):.2f}x on the geometric mean"])


def missed(rows, complete):
    """The targets that these rows do not reach, in words."""
    for row in rows:
        if row["ratio"]["eager"] < SLOWEST:
            yield f"{row['name']}: {row['ratio']['eager']:.2f}x of eager, wanted {SLOWEST}x"
        if row["first_ms"] > FIRST_MS:
            yield f"{row['name']}: the first step takes {row['first_ms'] / 1e3:.1f} s, wanted {FIRST_MS / 1e3:.0f}"
    mean = geometric_mean(row["ratio"]["eager"] for row in rows)
    if complete and mean < MEAN:
        yield f"geometric mean {mean:.2f}x, wanted {MEAN}x"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default: " + ", ".join(known()))
    parser.add_argument("--seconds", type=float, default=8, help="for each program")
    parser.add_argument("--threads", type=int, default=0, help="the machine's by default")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    parser.add_argument("--json", default="build/bench-programs.json")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in known():
            parser.error(f"there is no {name}; known are {', '.join(known())}")
    rows = []
    for name in arguments.names or known():
        print(f"{name} …", file=sys.stderr, flush=True)
        rows.append(measure(name, arguments))
    print(table(rows))
    pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")
    misses = list(missed(rows, complete=not arguments.names))
    for miss in misses:
        print(f"missed: {miss}")
    sys.exit(1 if misses and arguments.check else 0)


if __name__ == "__main__":
    main()

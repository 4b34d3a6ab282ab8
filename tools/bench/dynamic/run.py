"""./dev bench dynamic: a package for all sizes beside one that was compiled for the size at hand.

usage: run.py [NAME ...] [--check] [--seconds S] [--sizes N] [--peers A,B] [--json FILE]

Each model of ./dev bench is exported twice: with a `Dim` for what varies (sizes.py), and at each of six sizes. PyTorch's
loader runs Kiln's packages and AOTInductor's with the same `Dim`, taking turns as in ./dev bench. A ratio is how many
times as long the dynamic package takes as the fixed one at that size; "new" is what the first call at a size costs above
the ones that follow, and "turns" the time of calls whose size changes from one to the next over the time of calls whose
size stays.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from candidates import KILN, listed, made  # noqa: E402: it stands one folder up
from report import geometric_mean  # noqa: E402
from sizes import VARYING  # noqa: E402
from turns import alternate, summary  # noqa: E402

PEERS = ["AOTInductor"]
TARGETS = {"steady": 1.10, "mean": 1.04, "compile": 1.6, "code": 1.6, "package": 1.3, "turns": 1.03, "new_ms": 1.0}


def load(package):
    return torch._inductor.aoti_load_package(str(package))


def code_bytes(package):
    """Of the library, without its weights."""
    with zipfile.ZipFile(package) as opened:
        return sum(entry.file_size for entry in opened.infolist() if entry.filename.endswith(".so"))


def compiled(exported, package):
    """Kiln's package of what was exported, with what it took to make it (the median of three)."""
    archive = package.with_suffix(".archive.pt2")
    torch.export.save(exported, archive)
    command = [KILN, "compile", archive, "-o", package, "--no-cache", "--json"]
    taken = []
    for _ in range(3):
        package.unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        taken.append(json.loads(done.stdout)["total_ms"])
    archive.unlink()
    return {"call": load(package), "compile_ms": statistics.median(taken), "code": code_bytes(package),
            "package": package.stat().st_size}


class Row:
    """One model: its packages, and what they take at each size."""

    def __init__(self, name, folder, arguments):
        self.name, self.varying, self.folder, self.options = name, VARYING[name], folder, arguments
        self.model, _ = made(name)
        self.inputs = {size: self.varying.arguments(size) for size in self.varying.sizes[: arguments.sizes]}

    def export(self, size, dims=None):
        return torch.export.export(self.model, self.inputs[size], dynamic_shapes=dims)

    def check(self, call, size):
        for found, wanted in zip(listed(call(*self.inputs[size])), listed(self.model(*self.inputs[size])), strict=True):
            if not torch.allclose(found, wanted, 1e-3, 1e-3 * wanted.abs().max().item()):
                raise SystemExit(f"{self.name} at {size}: wrong by {(found - wanted).abs().max()}")

    def measure(self):
        first = self.varying.sizes[0]
        exported = self.export(first, self.varying.dims)
        self.dynamic = compiled(exported, self.folder / "dynamic.pt2")
        result = {"name": self.name, "what": self.varying.what, "sizes": {}}
        peers = {}
        if "AOTInductor" in self.options.peers:
            package = self.folder / "aoti.pt2"
            begin = time.perf_counter()
            torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
            result["aoti_compile_ms"] = (time.perf_counter() - begin) * 1e3
            peers["AOTInductor"] = load(package)
        for size in self.inputs:
            result["sizes"][size] = self.at(size, peers)
            if size == first:
                result |= {key: self.dynamic[key] / self.fixed[key] for key in ("compile_ms", "code", "package")}
                result["kiln_compile_ms"] = self.dynamic["compile_ms"]
        result["turns"] = self.turns(result)
        return result

    def at(self, size, peers):
        """Times of the packages at one size."""
        print(f"{self.name}: {size} {self.varying.what}", file=sys.stderr, flush=True)
        package = self.folder / "fixed.pt2"
        self.fixed = compiled(self.export(size), package)
        begin = time.perf_counter()
        self.dynamic["call"](*self.inputs[size])
        new_ms = (time.perf_counter() - begin) * 1e3
        calls = {"kiln": self.dynamic["call"], "fixed": self.fixed["call"]} | peers
        for call in calls.values():
            self.check(call, size)
        bound = {label: (lambda call=call: call(*self.inputs[size])) for label, call in calls.items()}
        found = summary(alternate(bound, self.options.seconds))
        package.unlink()
        return {"ms": found["ms"], "ratio": 1 / found["ratio"]["fixed"], "new_ms": new_ms - found["ms"]["kiln"],
                "aoti": found["ratio"].get("AOTInductor")}

    def turns(self, result):
        """Calls whose size changes each time, over calls whose size does not."""
        call, sizes = self.dynamic["call"], list(self.inputs)
        repeats = max(1, int(60 / sum(result["sizes"][size]["ms"]["kiln"] for size in sizes)))
        ratios = []
        for _ in range(9):
            begin = time.perf_counter()
            for size in sizes:
                call(*self.inputs[size])
                for _ in range(repeats):
                    call(*self.inputs[size])
            middle = time.perf_counter()
            for _ in range(repeats + 1):
                for size in sizes:
                    call(*self.inputs[size])
            ratios.append((time.perf_counter() - middle) / (middle - begin))
        return statistics.median(ratios)


def mean_ratio(rows):
    return geometric_mean([found["ratio"] for row in rows for found in row["sizes"].values()])


def table(row):
    lines = [f"{row['name']}: {row['what']}"]
    for size, found in row["sizes"].items():
        peer = f"   AOTInductor {found['aoti']:5.2f}x" if found["aoti"] else ""
        lines.append(f"  {size:>5}  {found['ms']['kiln']:9.3f} ms  fixed {found['ms']['fixed']:9.3f} ms   "
                     f"{found['ratio']:5.2f}x  new +{max(0, found['new_ms']):.2f} ms{peer}")
    lines.append(f"  compile {row['compile_ms']:.2f}x ({row['kiln_compile_ms']:.0f} ms), library {row['code']:.2f}x, "
                 f"package {row['package']:.2f}x, sizes in turns {row['turns']:.2f}x")
    return "\n".join(lines)


def missed(rows):
    """Each target that is missed, in words."""
    for row in rows:
        for size, found in row["sizes"].items():
            if found["ratio"] > TARGETS["steady"]:
                yield f"{row['name']} at {size}: {found['ratio']:.2f}x of fixed"
            if found["new_ms"] > TARGETS["new_ms"]:
                yield f"{row['name']} at {size}: the first call takes {found['new_ms']:.1f} ms more"
            if found["aoti"] and found["aoti"] < 1:
                yield f"{row['name']} at {size}: AOTInductor takes {found['aoti']:.2f} of our time"
        for key, target in (("compile_ms", "compile"), ("code", "code"), ("package", "package"), ("turns", "turns")):
            if row[key] > TARGETS[target]:
                yield f"{row['name']}: {target} {row[key]:.2f}x"
    if mean_ratio(rows) > TARGETS["mean"]:
        yield f"geometric mean {mean_ratio(rows):.3f}x of fixed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(VARYING))
    parser.add_argument("--check", action="store_true", help="fail where a target of docs/performance.md is missed")
    parser.add_argument("--seconds", type=float, default=2, help="for each size")
    parser.add_argument("--sizes", type=int, default=6, help="how many of each model")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of %(default)s; none with an empty one")
    parser.add_argument("--json", default="build/bench-dynamic.json")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in VARYING:
            parser.error(f"there is no {name}; known are {', '.join(VARYING)}")
    arguments.peers = [peer for peer in arguments.peers.split(",") if peer]
    for peer in arguments.peers:
        if peer not in PEERS:
            parser.error(f"there is no {peer}; known are {', '.join(PEERS)}")
    if arguments.sizes < 1:
        parser.error("--sizes is at least 1")
    rows = []
    for name in arguments.names or VARYING:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            rows.append(Row(name, pathlib.Path(folder), arguments).measure())
        print(table(rows[-1]), flush=True)
    print(f"geometric mean {mean_ratio(rows):.3f}x of fixed sizes")
    pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")
    misses = list(missed(rows))
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(1 if misses and arguments.check else 0)


if __name__ == "__main__":
    main()

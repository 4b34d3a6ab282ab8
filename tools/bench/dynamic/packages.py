"""Packages of one model, for all sizes and for one, and what they take at each size."""

import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
import zipfile

import torch

from candidates import KILN, listed, made
from memory import arena_bytes, symbols_of
from sizes import VARYING
from turns import FEWEST_ROUNDS, alternate, summary

FIRST_CALLS = 3
CHANGES, MOST_CHANGES, MOST_CHANGES_MS = 5, 40, 8000
# Calls that take longer spread less, and thirty of them for each of four candidates take minutes.
SLOW_MS, SLOW_ROUNDS = 50, 9


def load(package):
    return torch._inductor.aoti_load_package(str(package))


def code_bytes(package):
    """Of the library, without its weights."""
    with zipfile.ZipFile(package) as opened:
        return sum(entry.file_size for entry in opened.infolist() if entry.filename.endswith(".so"))


def declared_sizes(package):
    """KILN_SIZES of a package's metadata."""
    with zipfile.ZipFile(package) as opened:
        for name in opened.namelist():
            if name.endswith("wrapper_metadata.json"):
                return json.loads(opened.read(name)).get("KILN_SIZES")


def milliseconds(call, arguments):
    begin = time.perf_counter()
    call(*arguments)
    return (time.perf_counter() - begin) * 1e3


def system_milliseconds():
    """What the system has worked for this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e3


class Compiled:
    """Kiln's package of what was exported, with what it took to make it (the median of three)."""

    def __init__(self, exported, package):
        archive, source = package.with_suffix(".archive.pt2"), package.with_suffix(".source")
        torch.export.save(exported, archive)
        command = [KILN, "compile", archive, "-o", package, "--no-cache", "--json"]
        taken = []
        for i in range(4):
            package.unlink(missing_ok=True)
            kept = ["--keep-source", source] if i == 3 else []
            done = subprocess.run(command + kept, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            taken.append(json.loads(done.stdout)["total_ms"])
        archive.unlink()
        self.plan = (source / "plan.json").read_text()
        self.path, self.call = package, load(package)
        self.compile_ms, self.code = statistics.median(taken[:3]), code_bytes(package)
        self.package = package.stat().st_size


class Row:
    """One model: its packages, and what they take at each size."""

    def __init__(self, name, folder, options):
        self.name, self.varying, self.folder, self.options = name, VARYING[name], folder, options
        self.model, _ = made(name)
        self.inputs = {size: self.varying.arguments(size) for size in self.varying.sizes[: options.sizes]}

    def export(self, size, dims=None):
        return torch.export.export(self.model, self.inputs[size], dynamic_shapes=dims)

    def check(self, call, size):
        for found, wanted in zip(listed(call(*self.inputs[size])), listed(self.model(*self.inputs[size])), strict=True):
            if not torch.allclose(found, wanted, 1e-3, 1e-3 * wanted.abs().max().item()):
                raise SystemExit(f"{self.name} at {size}: wrong by {(found - wanted).abs().max()}")

    def measure(self):
        first = self.varying.sizes[0]
        exported = self.export(first, self.varying.dims)
        self.dynamic = Compiled(exported, self.folder / "dynamic.pt2")
        result = {"name": self.name, "what": self.varying.what, "sizes": {}}
        peers = {}
        if "AOTInductor" in self.options.peers:
            package = self.folder / "aoti.pt2"
            begin = time.perf_counter()
            torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
            result["aoti_compile_ms"] = (time.perf_counter() - begin) * 1e3
            peers["AOTInductor"] = load(package)
        if "torch.compile" in self.options.peers:
            peers["torch.compile"] = torch.compile(self.model, dynamic=True)
        for size in self.inputs:
            result["sizes"][size] = self.at(size, peers)
            if size == first:
                result |= {key: getattr(self.dynamic, key) / getattr(self.fixed, key)
                           for key in ("compile_ms", "code", "package")}
                result["kiln_compile_ms"] = self.dynamic.compile_ms
        result["turns"] = self.turns(result)
        return result

    def at(self, size, peers):
        """Times of the packages at one size."""
        print(f"{self.name}: {size} {self.varying.what}", file=sys.stderr, flush=True)
        self.fixed = Compiled(self.export(size), self.folder / "fixed.pt2")
        calls = {"kiln": self.dynamic.call, "fixed": self.fixed.call} | peers
        for call in calls.values():
            self.check(call, size)
        bound = {label: (lambda call=call: call(*self.inputs[size])) for label, call in calls.items()}
        is_slow = milliseconds(self.fixed.call, self.inputs[size]) > SLOW_MS
        found = summary(alternate(bound, self.options.seconds, fewest=SLOW_ROUNDS if is_slow else FEWEST_ROUNDS))
        self.fixed.path.unlink()
        growing_ms, system_ms = self.growing(size)
        return {"ms": found["ms"], "ratio": 1 / found["ratio"]["fixed"], "new_ms": self.changed(size),
                "growing_ms": growing_ms, "growing_system_ms": system_ms, "arena": self.arena(size),
                "peers": {peer: found["ratio"][peer] for peer in peers}}

    def arena(self, size):
        """How many times the memory of the fixed package."""
        shapes = [tuple(tensor.shape) for tensor in self.inputs[size]]
        fixed = arena_bytes(self.fixed.plan, {})
        symbols = symbols_of(declared_sizes(self.dynamic.path), shapes)
        return arena_bytes(self.dynamic.plan, symbols) / fixed if fixed else 1.0

    def others(self, size):
        """Sizes before a change to `size`, in turns."""
        return itertools.cycle([other for other in self.inputs if other != size] or [size])

    def changed(self, size):
        """What a call takes more whose size changes, in a model that has its memory.

        The least of such calls over the least of those behind them, of more rounds while it seems to be more than half
        a millisecond: calls of a large model spread by more than that.
        """
        call = load(self.dynamic.path)
        for _ in range(2):
            call(*self.inputs[max(self.inputs)])
        first, second = [], []
        for i, other in zip(range(MOST_CHANGES), self.others(size)):
            call(*self.inputs[other])
            first.append(milliseconds(call, self.inputs[size]))
            second.append(milliseconds(call, self.inputs[size]))
            enough = min(first) - min(second) < 0.5 or sum(first) > MOST_CHANGES_MS
            if i >= CHANGES and enough:
                break
        return min(first) - min(second)

    def growing(self, size):
        """What a call takes more than those behind it if it is the first at its size, and the system for it."""
        more = []
        for _, other in zip(range(FIRST_CALLS), self.others(size)):
            call = load(self.dynamic.path)
            for _ in range(3):
                call(*self.inputs[other])
            before = system_milliseconds()
            first = milliseconds(call, self.inputs[size])
            system = system_milliseconds() - before
            more.append((first - statistics.median(milliseconds(call, self.inputs[size]) for _ in range(5)), system))
        return sorted(more)[FIRST_CALLS // 2]

    def turns(self, result):
        """Calls whose size changes each time, over calls whose size does not: the least of each over nine rounds,
        as what else the machine does only adds to them."""
        call, sizes = self.dynamic.call, list(self.inputs)
        repeats = max(1, int(60 / sum(result["sizes"][size]["ms"]["kiln"] for size in sizes)))
        staying, changing = [], []
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
            staying.append(middle - begin)
            changing.append(time.perf_counter() - middle)
        return min(changing) / min(staying)

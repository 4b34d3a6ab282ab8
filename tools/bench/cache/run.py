"""./dev bench cache: what the cache costs, and what it saves.

usage: run.py [--json FILE] [--no-compile] [--small] [--check]

The first table is the library's own benchmark (libs/autograd-cache/benchmarks), built here without libtorch. The second
is `kiln compile` in fresh processes: a new archive, the same archive again, what is left when the time that the process
takes to start and to end is taken off (`kiln doctor --help`, the same program doing nothing), and what it says of itself.
The third is GPT-2 in fresh processes that use `kiln::compile` (warm_start.cpp): its first call when nothing was compiled
before, and when another process has. The last is what the guards of a compiled function cost. All of it takes about four
minutes on two quiet cores; `--small` takes one.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
KILN = ROOT / "build" / "bin" / "kiln"
WARM_START = ROOT / "build" / "bin" / "kiln-warm-start"
BUILD = ROOT / "build" / "bench-cache"

MANY_ENTRIES = "miss/100000"
# The benchmark's names, what they mean, and what they must stay under (microseconds), if anything.
ROWS = {
    "hit_in_memory/1048576": ("hit, entry in memory", 5000),
    "hit_on_disk/102400": ("hit on disk, library of 100 kB", 5000),
    "hit_on_disk/1048576": ("hit on disk, library of 1 MB", 5000),
    "hit_on_disk/5242880": ("hit on disk, library of 5 MB", 5000),
    "miss/0/iterations:2000": ("miss, empty store", 100),
    "miss/100000/iterations:2000": ("miss, 100,000 entries", 100),
    "explain_after_miss/iterations:200": ("why it missed, among the last keys", None),
    "save/flushed/iterations:100": ("save, library of 200 kB, flushed", None),
    "save/not_flushed/iterations:100": ("save, not flushed (KILN_CACHE_SYNC=off)", None),
    "key_of_graph/102400": ("key over 100 kB", None),
    "key_of_graph/1048576": ("key over 1 MB", None),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    return subprocess.run(command, check=True, **options)


def verdict(taken, limit):
    return "met" if taken < limit else "MISSED"


def memory_folder():
    """Where 100,000 entries are gone again at once; a disk that trims what is freed takes minutes for them."""
    folder = pathlib.Path("/dev/shm")
    return str(folder) if folder.is_dir() and shutil.disk_usage(folder).free > 2e9 else None


def library_rows():
    quiet = {"stdout": subprocess.DEVNULL}
    run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DKILN_LIBRARIES=base;autograd-cache", "-DKILN_BUILD_BENCHMARKS=ON", "-DKILN_BUILD_TESTS=OFF"], **quiet)
    run(["cmake", "--build", BUILD], **quiet)
    program = BUILD / "libs" / "autograd-cache" / "kiln-autograd-cache-benchmarks"
    rows = {}
    for what, folder in (("-" + MANY_ENTRIES, None), (MANY_ENTRIES, memory_folder())):
        say(f"the library alone: {what}")
        environment = dict(os.environ, TMPDIR=folder) if folder else None
        command = [program, "--benchmark_format=json", f"--benchmark_filter={what}"]
        answer = run(command, capture_output=True, text=True, env=environment).stdout
        rows |= {row["name"]: row for row in json.loads(answer)["benchmarks"]}
    return rows


def describe_library(rows):
    lines = ["microseconds a call, and how much of it this process worked: on a busy machine the rest is waiting", ""]
    scale = {"us": 1, "ms": 1e3, "ns": 1e-3}
    for name, (what, limit) in ROWS.items():
        taken, worked = (rows[name][kind] * scale[rows[name]["time_unit"]] for kind in ("real_time", "cpu_time"))
        target = "" if limit is None else f"   target {limit:,}: {verdict(taken, limit)}"
        lines.append(f"  {what:42s} {taken:10.1f} {worked:10.1f}{target}")
    together = next(row for name, row in rows.items() if name.startswith("sixteen_processes"))
    lines += ["", f"16 processes that all need the same 20 entries: {together['compiles_per_key']:.2f} compiles an entry, "
                  f"{together['errors']:.0f} errors   target 1 and 0: "
                  f"{verdict(together['compiles_per_key'] - 1 + together['errors'], 1e-9)}"]
    return "\n".join(lines)


def milliseconds(command, environment):
    start = time.perf_counter()
    run(command, env=environment, capture_output=True)
    return (time.perf_counter() - start) * 1e3


def make_archives(folder):
    """Two models as torch.export saves them: one small, one with weights worth copying."""
    import torch

    def mlp(width, layers):
        parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        return torch.nn.Sequential(*parts).eval()

    torch.manual_seed(0)
    for name, width in {"mlp 4 x 256": 256, "mlp 4 x 1024 (17 MB of weights)": 1024}.items():
        path = folder / f"{width}.pt2"
        torch.export.save(torch.export.export(mlp(width, 4), (torch.randn(1, width),)), path)
        yield name, path


def command_rows(folder):
    environment = dict(os.environ, KILN_CACHE_DIR=str(folder / "cache"), KILN_CACHE="strict")
    rows = []
    for name, archive in make_archives(folder):
        say(f"kiln compile: {name}")
        out = folder / "out.pt2"
        command = [KILN, "compile", archive, "-o", out, "--json"]
        cold = milliseconds(command, environment)
        time.sleep(4)  # A file that was only just written is read again: its time may not show a change.
        milliseconds(command, environment)
        # In turns, so that a moment in which the machine is slow is in both.
        turns = [(milliseconds([KILN, "doctor", "--help"], environment), milliseconds(command, environment)) for _ in range(7)]
        answer = json.loads(run(command, env=environment, capture_output=True, text=True).stdout)
        if not answer["cache_hit"] or answer["trace_ms"] != 0:
            raise SystemExit(f"{name}: the second compile did not come from the cache")
        rows.append({"name": name, "cold_ms": cold, "inside_ms": answer["total_ms"],
                     "start_ms": statistics.median(start for start, _ in turns),
                     "again_ms": statistics.median(again for _, again in turns),
                     "rest_ms": statistics.median(again - start for start, again in turns)})
    return rows


def describe_commands(rows):
    lines = ["`kiln compile` in a new process, milliseconds", "",
             f"  {'':34s} {'new':>8s} {'again':>8s} {'of it: start':>13s} {'the rest':>9s} {'compile':>8s}   target 100"]
    for row in rows:
        lines.append(f"  {row['name']:34s} {row['cold_ms']:8.0f} {row['again_ms']:8.0f} {row['start_ms']:13.0f} "
                     f"{row['rest_ms']:9.0f} {row['inside_ms']:8.1f}   {verdict(row['rest_ms'], 100)}")
    return "\n".join(lines)


def warm_start(environment, *arguments):
    return json.loads(run([WARM_START, *arguments], env=environment, capture_output=True, text=True).stdout)


def start_rows(folder, size):
    """For each way to start: the first process of all, then the best of four that follow it: memory that no
    process had before costs one of them half a second."""
    rows = []
    for mode in ("infer", "train"):
        for identity in ("", "gpt2"):
            environment = dict(os.environ, KILN_CACHE_DIR=str(folder / f"{mode}-{identity}"), KILN_CACHE="strict")
            say(f"GPT-2: {mode}{', with an identity' if identity else ''}")
            cold = warm_start(environment, mode, identity, size)
            warm = [warm_start(environment, mode, identity, size) for _ in range(4)]
            best = min(warm, key=lambda row: row["first_ms"] - row["eager_ms"])
            expected = "found in the cache" if identity else "traced" if mode == "infer" else "trace found in the cache"
            if best["origin"] != expected or best["compile_ms"] != 0:
                raise SystemExit(f"{mode} {identity}: the later process is '{best['origin']}', not '{expected}'")
            rows.append(dict(best, mode=mode, cold_ms=cold["first_ms"]))
    return rows


def describe_starts(rows):
    lines = ["the first call of GPT-2 (for training: the first step) in a new process, milliseconds", "",
             f"  {'':26s} {'eager':>8s} {'cold':>8s} {'warm':>8s} {'to kernel':>10s} {'trace':>8s} {'lookup':>8s} {'later calls':>12s}   target"]
    for row in rows:
        # With an identity: what comes before the first kernel. Else: what comes on top of eager.
        over = row["ready_ms"] if row["identity"] else row["first_ms"] - row["eager_ms"]
        name = row["mode"] + (", with an identity" if row["identity"] else "")
        what = "to the first kernel" if row["identity"] else "over eager"
        ready = f"{row['ready_ms']:.1f}" if row["identity"] else ""
        lines.append(f"  {name:26s} {row['eager_ms']:8.0f} {row['cold_ms']:8.0f} {row['first_ms']:8.0f} {ready:>10s} {row['trace_ms']:8.0f} "
                     f"{row['lookup_ms']:8.1f} {row['again_ms']:12.0f}   50 {what}: {over:.0f}, {verdict(over, 50)}")
    return "\n".join(lines)


def describe_guards(row):
    four, module = row["four_inputs_ns"] / 1e3, row["module_ns"] / 1e3
    return (f"guards of a call, microseconds: {four:.2f} for four inputs (target 1: {verdict(four, 1)}), "
            f"{module:.1f} for GPT-2 with its {row['module_parameters']} parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default=str(ROOT / "build" / "bench-cache.json"))
    parser.add_argument("--no-compile", action="store_true", help="only the library's own benchmark")
    parser.add_argument("--small", action="store_true", help="GPT-2 with few numbers: all that is not arithmetic")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    arguments = parser.parse_args()
    sections = []

    def show(section):
        sections.append(section)
        print(section + "\n", flush=True)

    library = library_rows()
    show(describe_library(library))
    commands, starts, guards = [], [], {}
    if not arguments.no_compile:
        with tempfile.TemporaryDirectory() as folder:
            commands = command_rows(pathlib.Path(folder))
            show(describe_commands(commands))
            starts = start_rows(pathlib.Path(folder), "small" if arguments.small else "full")
            show(describe_starts(starts))
            guards = warm_start(os.environ, "guards")
            show(describe_guards(guards))
    data = {"library": library, "commands": commands, "starts": starts, "guards": guards}
    pathlib.Path(arguments.json).write_text(json.dumps(data, indent=2) + "\n")
    print(f"{arguments.json} has the same as data")
    return 1 if arguments.check and "MISSED" in "".join(sections) else 0


if __name__ == "__main__":
    sys.exit(main())

"""./dev bench cuda models: whole models in bfloat16 on a GPU, packages of Kiln beside what PyTorch makes of them.

usage: run.py KILN [NAME...] [--check] [--peers A,B] [--minutes M] [--prepare] [--folder DIRECTORY] [--json FILE]
              [--svg FILE]

Each is exported on the CPU and compiled by `kiln compile --device cuda`. "plain" is the package in PyTorch's
own aoti_load_package, beside AOTInductor's package there and beside torch.compile's default mode; "graphs" is
`kiln bench --cuda-graphs on` beside mode="reduce-overhead". Times are medians of calls in milliseconds, each until
the device has done it; "busy" is what the device itself takes. Memory is what the driver says a process takes during
calls, its context included. "load" is aoti_load_package; compiles are cold, torch.compile's is its first call.
Errors are relative to the same model in float64.

Each peer runs in a process of its own: one that crashes or takes too long is a line that says so. Exports and
AOTInductor's compiles, of all models at once, come first; --prepare does only those, and a later run with the same
--folder goes on from there. No step begins after --minutes, and what was found is written after each one.

--check fails where a target is missed, but for what is written off with its reason (targets.py).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import device_memory  # noqa: E402
import targets  # noqa: E402
from charts import ratio_bars  # noqa: E402: one folder up
from examples import EXAMPLES, MEASURED  # noqa: E402
from processes import Deadline, Step, reason_in, run  # noqa: E402

# What one step may take, in seconds. AOTInductor's compile has an option of its own.
MOST = 150
CORES_FOR_A_COMPILE = 3
PEERS = ["torch.compile", "reduce-overhead", "AOTInductor"]


def prepare(steps, options, deadline):
    """Archives for Kiln, and AOTInductor's packages, as many at once as there are cores for."""
    if options.device == "cuda":
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(CORES_FOR_A_COMPILE))
    work = [(step, "export", "archive.pt2", MOST) for step in steps]
    if "AOTInductor" in options.peers:
        work += [(step, "compile AOTInductor", "aotinductor.pt2", options.compile_seconds) for step in steps]

    def do(job):
        step, what, made, seconds = job
        if (step.folder / made).exists():
            return None
        found = step.run(what, min(seconds, deadline.left()))
        return f"{step.name}: {what}: {found['failed']}" if "failed" in found else None

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // CORES_FOR_A_COMPILE)) as pool:
        for failure in filter(None, pool.map(do, work)):
            print(failure, file=sys.stderr, flush=True)


def compile_package(kiln, step, seconds):
    """Seconds that Kiln takes for the package."""
    start = time.perf_counter()
    failure = run([kiln, "compile", step.folder / "archive.pt2", "-o", step.folder / "kiln.pt2", "--device",
                   step.device, "--no-cache"], step.folder / "compile kiln.log", seconds)
    return {"failed": failure} if failure else {"compile_s": time.perf_counter() - start}


def replay(kiln, step, seconds):
    """What `kiln bench` says of calls that are replayed."""
    if seconds <= 0:
        return {"failed": "no time was left"}
    graphs = "on" if step.device == "cuda" else "off"
    before = device_memory.settled(step.used) if step.used else 0
    try:
        done = subprocess.run([kiln, "bench", step.folder / "kiln.pt2", "--cuda-graphs", graphs, "--instances", "1",
                               "--seconds", "0.5", "--json"], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {seconds:.3g} s"}
    if done.returncode != 0:
        return {"failed": " ".join(done.stderr.split())[-300:] or f"ended with {done.returncode}"}
    measured = json.loads(done.stdout)
    if refusals := measured.get("cuda_graphs", {}).get("refusals"):
        return {"failed": f"not captured: {refusals[0]}"}
    # As for the peers: while calls are measured, without what the allocator kept from those before.
    memory = {"memory": measured["gpu_memory"] - before} if "gpu_memory" in measured else {}
    return {"ms": measured["p50_us"] / 1e3} | memory


def measure(kiln, step, peers, deadline, written):
    """One model, a step after the other; `written` is told of each."""
    found = {}
    left = lambda: min(MOST, deadline.left())

    def note(key, value):
        found[key] = value
        written(found)

    compiled = compile_package(kiln, step, left())
    if "failed" in compiled:
        note("kiln", compiled)
        return found
    note("kiln graphs", replay(kiln, step, left()))
    note("kiln", step.run("kiln", left()) | compiled)
    for peer in peers:
        note(peer, aotinductor(step, left()) if peer == "AOTInductor" else step.run(peer, left()))
    return found


def aotinductor(step, seconds):
    if not (step.folder / "aotinductor.pt2").exists():
        reason = reason_in(step.folder / "compile AOTInductor.log") or "no package was made in time"
        return {"failed": f"compile: {reason[:300]}"}
    compiled = json.loads((step.folder / "compile AOTInductor.json").read_text())
    return step.run("AOTInductor", seconds) | {"compile_s": compiled["compile_s"]}


def machine(device):
    import torch
    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else "CPU"
    return {"device": name, "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXAMPLES))
    parser.add_argument("--check", action="store_true", help="fail where a target of docs/cuda.md is missed")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of %(default)s; none with an empty one")
    parser.add_argument("--minutes", type=float, default=30, help="all of it is over by then")
    parser.add_argument("--prepare", action="store_true", help="only export, and compile AOTInductor's packages")
    parser.add_argument("--compile-seconds", type=float, default=300, help="for AOTInductor's compile of one model")
    parser.add_argument("--folder", type=Path, help="keep archives and packages there")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script itself")
    parser.add_argument("--json", type=Path, default="build/bench-cuda-models.json")
    parser.add_argument("--svg", type=Path, default="build/bench-cuda-models.svg")
    options = parser.parse_args()
    for name in options.names:
        if name not in EXAMPLES:
            parser.error(f"there is no {name}; known are {', '.join(EXAMPLES)}")
    options.peers = [peer for peer in options.peers.split(",") if peer]
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"there is no {peer}; known are {', '.join(PEERS)}")
    return options


def main():
    options = parse()
    deadline = Deadline(options.minutes)
    used = device_memory.usage() if options.device == "cuda" else None
    results = {"machine": machine(options.device), "models": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        steps = [Step(name, folder / name.replace(" ", "-"), options.device, used) for name in options.names or MEASURED]
        prepare(steps, options, deadline)
        if options.prepare:
            return 0
        print(targets.HEAD)
        for step in steps:
            def write(found, name=step.name):
                results["models"][name] = found
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(results, indent=2) + "\n")
            print(targets.described(step.name, measure(options.kiln, step, options.peers, deadline, write)), flush=True)
    models = results["models"]
    if rows := targets.drawn(models):
        options.svg.write_text(ratio_bars(rows))
    print("\n".join(targets.means(models)))
    failed = False
    for miss in targets.missed(models):
        failed = failed or not miss.reason
        print(f"written off ({miss.reason}): {miss.text}" if miss.reason else f"missed: {miss.text}", file=sys.stderr)
    return 1 if failed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

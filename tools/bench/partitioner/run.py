"""./dev bench partitioner: Kiln's partitioner and PyTorch's on the same joint graphs.

Each model's joint graph is traced by PyTorch (the full sizes under FakeTensorMode, so nothing of that size is ever
allocated), partitioned by PyTorch's min_cut_rematerialization_partition, and handed to `kiln inspect --partition` as text.
Bytes are counted by one rule for both: the memory that is kept from the forward to the backward beyond the program's
inputs, each storage once.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses import FakeTensorMode

import simulation
from joint_graph import to_kir, trace_joint
from training_models import MODELS

# PyTorch warns of itself when a graph is copied.
warnings.filterwarnings("ignore", category=FutureWarning)

ROOT = pathlib.Path(__file__).resolve().parents[3]
KILN = ROOT / "build" / "bin" / "kiln"
BUDGETS = [1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.0]


def trace(name, full, decomposed):
    with FakeTensorMode():
        module, arguments = MODELS[name](full)
        return trace_joint(module, arguments, select_decomp_table() if decomposed else None)


def partition_with_kiln(text, folder, budget=1.0):
    file = folder / "joint.kir"
    file.write_text(text)
    command = [KILN, "inspect", "--partition", file, "--json", "--budget", str(budget)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def partition_with_pytorch(joint, forward_outputs, static, budget=1.0):
    """(forward, backward, seconds). PyTorch's partitioner changes the graph it is given."""
    joint = copy.deepcopy(joint)
    start = time.perf_counter()
    with functorch_config.patch(activation_memory_budget=budget):
        forward, backward = min_cut_rematerialization_partition(
            joint, None, num_fwd_outputs=forward_outputs, static_lifetime_input_indices=static
        )
    return forward, backward, time.perf_counter() - start


def compare(name, full, decomposed, folder):
    joint, forward_outputs, static = trace(name, full, decomposed)
    ours = partition_with_kiln(to_kir(joint, forward_outputs, static, name), folder)
    forward, _, seconds = partition_with_pytorch(joint, forward_outputs, static)
    saved = {
        "kiln": [value["name"] for value in ours["saved"]],
        "pytorch": [node.name for node in simulation.outputs_of(forward)[forward_outputs:] if node is not None],
    }
    return {
        "model": name,
        "size": "full" if full else "small",
        "graph": "decomposed" if decomposed else "as traced",
        "nodes": len(joint.graph.nodes),
        "bytes": {who: simulation.kept_bytes(joint.graph, names) for who, names in saved.items()},
        "ms": {"kiln": ours["partition_ms"], "pytorch": 1e3 * seconds},
    }


def sweep(name, folder):
    """Peak memory of a training step of the full size at each budget, by simulation."""
    joint, forward_outputs, static = trace(name, True, False)
    text, rows = to_kir(joint, forward_outputs, static, name), []
    for budget in BUDGETS:
        ours = partition_with_kiln(text, folder, budget)
        forward, backward, _ = partition_with_pytorch(joint, forward_outputs, static, budget)
        peak = max(ours["forward_peak_bytes"], ours["backward_peak_bytes"])
        theirs = simulation.peak_bytes(forward, backward, forward_outputs)
        rows.append({"budget": budget, "kiln": peak, "pytorch": theirs, "recomputed": ours["recomputed_share"],
                     "pytorch_draws_again": simulation.draws_again(forward, backward)})  # fmt: skip
    return {"model": name, "rows": rows}


def chain(nodes):
    """cos of cos of …: three nodes for each step, one forward and two backward."""
    steps = nodes // 3
    lines = ["input %x0: f32[64, 64] user", f"input %g{steps}: f32[64, 64] tangent"]
    lines += [f"%x{i + 1}: f32[64, 64] = aten.cos.default(%x{i})" for i in range(steps)]
    for i in reversed(range(steps)):
        lines.append(f"%s{i}: f32[64, 64] = aten.sin.default(%x{i}) backward")
        lines.append(f"%g{i}: f32[64, 64] = aten.mul.Tensor(%g{i + 1}, %s{i}) backward")
    lines += [f"output %x{steps} user", "output %g0 gradient 0"]
    return "graph chain {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def grow(folder):
    rows = []
    for nodes in (1_000, 10_000, 100_000):
        text = chain(nodes)
        rows.append({"nodes": nodes, "ms": min(partition_with_kiln(text, folder)["partition_ms"] for _ in range(3))})
    return rows


def megabytes(count):
    return f"{count / 1e6:.3f}" if count < 1e7 else f"{count / 1e6:.1f}"


def print_comparison(rows):
    print("megabytes saved for the backward, and milliseconds to decide")
    print(f"{'':32s} {'nodes':>6s} {'Kiln':>10s} {'PyTorch':>10s} {'Kiln':>8s} {'PyTorch':>8s}")
    for row in rows:
        title = f"{row['model']}, {row['size']}, {row['graph']}"
        print(
            f"{title:32s} {row['nodes']:6d} {megabytes(row['bytes']['kiln']):>7s} MB {megabytes(row['bytes']['pytorch']):>7s} MB"
            f" {row['ms']['kiln']:5.0f} ms {row['ms']['pytorch']:5.0f} ms"
        )


def print_sweep(sweeps):
    print("\npeak megabytes of forward and backward by memory budget, full size, simulated; time that Kiln recomputes")
    for one in sweeps:
        print(f"{one['model']:12s}" + "".join(f"{row['budget']:9g}" for row in one["rows"]))
        for who, label in (("kiln", "  Kiln"), ("pytorch", "  PyTorch")):
            print(f"{label:12s}" + "".join(f"{row[who] / 1e6:9.0f}" for row in one["rows"]))
        print(f"{'  again':12s}" + "".join(f"{100 * row['recomputed']:7.0f} %" for row in one["rows"]))
        if most := max(row["pytorch_draws_again"] for row in one["rows"]):
            print(f"  PyTorch's backward draws the numbers of up to {most} random operators again, and gets others")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--json", default="build/bench-partitioner.json")
    parser.add_argument("--svg", default="build/bench-partitioner.svg")
    parser.add_argument("--graphs", help="folder for the small joint graphs, as the tests read them; then stop")
    arguments = parser.parse_args()
    models = arguments.models or list(MODELS)
    if unknown := [name for name in models if name not in MODELS]:
        parser.error(f"there is no model {unknown[0]}; known are {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        if arguments.graphs:
            write_graphs(models, pathlib.Path(arguments.graphs))
            return
        compare(models[0], False, False, folder)  # The first call of PyTorch's partitioner imports modules.
        rows = []
        for name in models:
            for full in (False, True):
                print(f"{name}, {'full' if full else 'small'} size", file=sys.stderr, flush=True)
                rows += [compare(name, full, decomposed, folder) for decomposed in (False, True)]
        print_comparison(rows)
        growth = grow(folder)
        print("\na chain of " + ", ".join(f"{row['nodes']:,} nodes: {row['ms']:.0f} ms" for row in growth))
        sweeps = [sweep(name, folder) for name in models]
        print_sweep(sweeps)
    result = {"saved": rows, "growth": growth, "budgets": sweeps}
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    pathlib.Path(arguments.svg).write_text(simulation.picture(sweeps))
    print(f"\n{arguments.json} and {arguments.svg} have the same as data and as a picture")
    if more := [row for row in rows if row["bytes"]["kiln"] > row["bytes"]["pytorch"]]:
        sys.exit(f"{len(more)} joint graphs keep more bytes than with PyTorch")


def write_graphs(models, folder):
    for name in models:
        joint, forward_outputs, static = trace(name, False, False)
        text = to_kir(joint, forward_outputs, static, name)
        forward, _, _ = partition_with_pytorch(joint, forward_outputs, static)
        names = [node.name for node in simulation.outputs_of(forward)[forward_outputs:] if node is not None]
        (folder / f"{name}.kir").write_text(
            f"# The joint graph of {name} as PyTorch {torch.__version__.split('+')[0]} traces it, by tools/bench/partitioner/run.py.\n"
            f"# PyTorch saves: {simulation.kept_bytes(joint.graph, names)} bytes\n" + text
        )


if __name__ == "__main__":
    main()

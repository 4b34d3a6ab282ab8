"""Times generated CUDA kernels beside torch.compile's, on patterns that memory limits.

    python tools/bench/cuda_kernels.py KILN-CUDA-KERNELS [--check]

Needs a GPU and a torch with CUDA. Prints a table: microseconds, gigabytes a second of inputs and
outputs, and how much faster Kiln's kernels are.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

ROWS, COLUMNS = 65536, 1024



def kir(name, dtype, inputs, nodes, outputs):
    lines = [f"  input %{n}: {t.replace('T', dtype)} user" for n, t in inputs]
    lines += ["  " + node.replace("T[", dtype + "[") for node in nodes]
    lines += [f"  output %{n} user" for n in outputs]
    return f"graph {name} {{\n" + "\n".join(lines) + "\n}\n"


def patterns():
    r, c = ROWS, COLUMNS
    x = [("x", f"T[{r}, {c}]")]
    norm_nodes = [
        f"%y: T[{r}, {c}], %m: f32[{r}, 1], %s: f32[{r}, 1] = "
        f"aten.native_layer_norm.default(%x, [{c}], %w, %b, 1e-05)"]
    return {
        "gelu": (x, [f"%a: T[{r}, {c}] = aten.gelu.default(%x, \"none\")"], ["a"],
                 lambda x: F.gelu(x), [(r, c)]),
        "silu_mul": (x + [("z", f"T[{r}, {c}]")],
                     [f"%a: T[{r}, {c}] = aten.silu.default(%x)",
                      f"%y: T[{r}, {c}] = aten.mul.Tensor(%a, %z)"], ["y"],
                     lambda x, z: F.silu(x) * z, [(r, c), (r, c)]),
        "bias_relu": (x + [("b", f"T[{c}]")],
                      [f"%a: T[{r}, {c}] = aten.add.Tensor(%x, %b, 1)",
                       f"%y: T[{r}, {c}] = aten.relu.default(%a)"], ["y"],
                      lambda x, b: F.relu(x + b), [(r, c), (c,)]),
        "softmax": (x, [f"%y: T[{r}, {c}] = aten._softmax.default(%x, 1, false)"], ["y"],
                    lambda x: F.softmax(x, 1), [(r, c)]),
        "layer_norm": (x + [("w", f"T[{c}]"), ("b", f"T[{c}]")], norm_nodes, ["y"],
                       lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b), [(r, c), (c,), (c,)]),
        "row_sum": (x, [f"%y: T[{r}] = aten.sum.dim_IntList(%x, [1], false, none)"], ["y"],
                    lambda x: x.sum(1), [(r, c)]),
        "column_sum": (x, [f"%y: T[{c}] = aten.sum.dim_IntList(%x, [0], false, none)"], ["y"],
                       lambda x: x.sum(0), [(r, c)]),
        "sum": (x, ["%y: T[] = aten.sum.default(%x, none)"], ["y"], lambda x: x.sum(), [(r, c)]),
        "transpose": (x, [f"%t: T[{c}, {r}]{{1, {c}}} = aten.t.default(%x) view(0:0)",
                          f"%y: T[{c}, {r}] = aten.clone.default(%t, contiguous_format)",
                          f"%z: T[{c}, {r}] = aten.add.Scalar(%y, 1.0, 1)"], ["z"],
                      lambda x: x.t().contiguous() + 1, [(r, c)]),
    }


def kiln_times(binary, dtype):
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, (inputs, nodes, outputs, _, _) in patterns().items():
            file = pathlib.Path(folder) / f"{name}.kir"
            file.write_text(kir(name, dtype, inputs, nodes, outputs))
            files.append(str(file))
        done = subprocess.run([binary, *files], stdout=subprocess.PIPE, text=True, check=True)
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def time_of(function, arguments, rounds=20, runs=10):
    for _ in range(3):
        function(*arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            function(*arguments)
    best = math.inf
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) * 1000 / runs)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--check", action="store_true", help="fail below 0.97x")
    options = parser.parse_args()
    ratios = []
    print(f"{'pattern':<12} {'type':<5} {'Kiln us':>9} {'GB/s':>6} {'torch us':>9} {'GB/s':>6} {'ratio':>6}")
    for dtype, torch_type in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        ours = kiln_times(options.binary, dtype)
        for name, (_, _, _, function, shapes) in patterns().items():
            torch._dynamo.reset()
            arguments = [torch.randn(shape, device="cuda", dtype=torch_type) for shape in shapes]
            theirs = time_of(torch.compile(function), arguments)
            line = ours[name]
            ratios.append(theirs / line["us"])
            print(f"{name:<12} {dtype:<5} {line['us']:>9.1f} {line['bytes'] / line['us'] / 1e3:>6.0f} "
                  f"{theirs:>9.1f} {line['bytes'] / theirs / 1e3:>6.0f} {ratios[-1]:>6.2f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}x of torch.compile, least {min(ratios):.2f}x")
    if options.check and min(ratios) < 0.97:
        sys.exit(1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Programs compiled for CUDA, in PyTorch's own runner.

`prepare` needs no GPU: each program is exported on the CPU (or, where there is a GPU, every other one on that),
`kiln compile --device cuda` makes a package of it, and that goes to the folder with inputs the trace has not seen and what the module gives for them;
where sizes vary, with inputs of other sizes. `check` runs every package of the folder on the GPU: results
within three times the module's own error against float64, arguments as the module leaves them, twice, and
the same bits both times, unless atomics add them up; then all of them again in a CUDA graph.

usage: run.py prepare KILN FOLDER [--arch LIST] [--only NAME...] [--zoo]
       run.py check FOLDER [--only NAME...]
"""

import argparse
import copy
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import torch._inductor
from torch.utils import _pytree as pytree

EXTRA = {torch.float32: 3e-6, torch.float64: 1e-12, torch.bfloat16: 8e-3, torch.float16: 1e-3}


EXPORTING = threading.Lock()  # torch.export is not for several threads.


# They wait for the device, or change with every call.
NOT_CAPTURED = {"solves", "counter"}
# Atomics add up floats in another order each time.
VARYING = {"scatters"}
# They make tensors on the CPU, which do not go with those of a GPU.
MAKE_TENSORS = {"constants", "scatters", "scatters_deterministic", "scatters_once"}
# Compiled with `deterministic`, and run while libtorch is asked for deterministic algorithms.
DETERMINISTIC = {"scatters_deterministic"}


class Wrong(Exception):
    """What is not as it should be."""


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Flat(torch.nn.Module):
    """A module that returns its tensors as a tuple: where a package runs, nobody need know its classes."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments, **keywords):
        return tuple(tensors(self.module(*arguments, **keywords)))


def redrawn(value):
    """Other values of the same kind."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():
        return torch.randn(value.shape).to(value.dtype)
    if value.dim() == 0 or (value.dim() == 1 and value[0] == 0 and bool((value.diff() >= 0).all())):
        return value  # Where bags begin.
    return value.flatten()[torch.randperm(value.numel())].view(value.shape)


def doubled(tree):
    return pytree.tree_map(
        lambda leaf: leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf, tree)


def on_gpu(tree):
    return pytree.tree_map(
        lambda leaf: leaf.cuda() if isinstance(leaf, (torch.Tensor, torch.nn.Module)) else leaf, copy.deepcopy(tree))


def reference(module, arguments, keywords):
    """Two calls: the results and arguments after each, and for each result how far off it may be."""
    calls = []
    exact = copy.deepcopy(module).double()
    module = copy.deepcopy(module)
    for _ in range(2):
        inputs = copy.deepcopy((arguments, keywords))
        results = module(*inputs[0], **inputs[1])
        try:
            wide = doubled(copy.deepcopy((arguments, keywords)))
            truth = tensors(exact(*wide[0], **wide[1]))
        except Exception:  # A module that insists on a type.
            truth = tensors(results)
        allowed = []
        for found, true in zip(tensors(results), truth):
            if not found.is_floating_point():
                allowed.append(0)
                continue
            scale = true.double().abs().nan_to_num(0, 0, 0).amax().item() if true.numel() else 0
            error = (found.double() - true.double()).abs().nan_to_num(0, 0, 0).amax().item() if (
                true.numel() and found.shape == true.shape) else 0
            allowed.append(3 * error + EXTRA.get(found.dtype, 0) * scale)
        calls.append((tensors(results), allowed, tensors(inputs)))
    return calls


def prepare(kiln, name, make, folder, arch):
    archive = folder / f"{name}.archive.pt2"
    with EXPORTING, torch.no_grad():
        torch.manual_seed(sum(map(ord, name)))
        made = make()
        varies = hasattr(made[1], "dims")
        module, arguments = Flat(made[0]), made[1].inputs(6) if varies else made[1]
        keywords = made[2] if len(made) > 2 else {}
        # `Flat` takes one tuple of arguments.
        dims = (tuple(made[1].dims),) if varies else None
        # Where there is a GPU, every other program is exported on it.
        is_on_gpu = torch.cuda.is_available() and sum(map(ord, name)) % 2 and name not in MAKE_TENSORS
        place = on_gpu if is_on_gpu else copy.deepcopy
        torch.export.save(torch.export.export(place(module), place(arguments), place(keywords), dynamic_shapes=dims,
                                              strict=False), archive)
        torch.manual_seed(1 + sum(map(ord, name)))
        drawn = [(made[1].inputs(size), {}) for size in (1, 7, 2, 40)] if varies else [
            pytree.tree_map(redrawn, (tuple(arguments), keywords))]
        torch.save([{"inputs": inputs, "calls": reference(module, *inputs)} for inputs in drawn],
                   folder / f"{name}.expected")
    more = ["--option", "deterministic=true"] if name in DETERMINISTIC else []
    done = subprocess.run([kiln, "compile", archive, "-o", folder / f"{name}.pt2", "--no-cache", "--device", "cuda",
                           "--option", f"arch={arch}", *more], capture_output=True, text=True)
    archive.unlink()
    if done.returncode != 0:
        raise Wrong(f"compile: {done.stderr.strip()[-400:]}")


def prepare_all(args):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "zoo"))
    import programs
    chosen = dict(programs.PROGRAMS)
    if args.zoo:
        import models
        import pieces
        chosen = {name: maker for name, (_, maker) in models.MODELS.items()} | pieces.PIECES
    return {name: (lambda name=name, make=make: prepare(args.kiln, name, make, args.folder, args.arch))
            for name, make in chosen.items() if not args.only or name in args.only}


def compare(found, expected, allowed, what):
    if (found.dtype, tuple(found.shape)) != (expected.dtype, tuple(expected.shape)):
        raise Wrong(f"{what} is {found.dtype}{tuple(found.shape)} instead of {expected.dtype}{tuple(expected.shape)}")
    strides = [tuple(stride for stride, size in zip(tensor.stride(), tensor.shape) if size != 1)
               for tensor in (found, expected)]
    if strides[0] != strides[1] and expected.numel() > 1:
        raise Wrong(f"{what} has strides {found.stride()} instead of {expected.stride()}")
    found = found.cpu()
    if allowed == 0 or not expected.is_floating_point():
        if not torch.allclose(found, expected, rtol=1e-5 if expected.is_complex() else 0,
                              atol=1e-5 if expected.is_complex() else 0, equal_nan=True):
            raise Wrong(f"{what} differs in {(found != expected).sum()} of {expected.numel()} elements")
        return
    odd = ~expected.isfinite()
    if not torch.equal(found[odd].nan_to_num(7, 8, 9), expected[odd].nan_to_num(7, 8, 9)):
        raise Wrong(f"{what} is not finite elsewhere")
    error = (found.double() - expected.double())[~odd].abs()
    if error.numel() and not error.amax() <= allowed:
        raise Wrong(f"{what} is {error.amax():.3g} off, {allowed:.3g} are allowed")


def compare_call(found, inputs, call, what):
    expected, allowed, after = call
    if len(found) != len(expected):
        raise Wrong(f"{len(found)} results instead of {len(expected)}")
    for k, (result, wanted, bound) in enumerate(zip(found, expected, allowed)):
        compare(result, wanted, bound, f"result {k} of {what}")
    for k, (argument, wanted) in enumerate(zip(tensors(inputs), after)):
        compare(argument, wanted, 1e-5, f"argument {k} after {what}")


def check(name, folder):
    saved = torch.load(folder / f"{name}.expected", weights_only=False)
    runs = []
    for _ in range(2):
        runner = torch._inductor.aoti_load_package(str(folder / f"{name}.pt2"))
        results = []
        for number, sample in enumerate(saved):
            for call_number, call in enumerate(sample["calls"]):
                inputs = on_gpu(sample["inputs"])
                found = tensors(runner(*inputs[0], **inputs[1]))
                compare_call(found, inputs, call, f"call {call_number} with inputs {number}")
                results += [result.cpu() for result in found]
        runs.append(results)
    for first, second in zip(*runs):
        if name not in VARYING and not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
            raise Wrong("two loads of the package do not give the same bits")


def check_captured(name, folder):
    """The package in a graph that torch.cuda.graph captures: a replay reads what its inputs hold by then."""
    for sample in torch.load(folder / f"{name}.expected", weights_only=False):
        runner = torch._inductor.aoti_load_package(str(folder / f"{name}.pt2"))
        inputs = on_gpu(sample["inputs"])
        runner(*on_gpu(inputs)[0], **on_gpu(inputs)[1])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = tensors(runner(*inputs[0], **inputs[1]))
        neighbour = torch.full((1 << 20,), 7.0, device="cuda")
        for _ in range(3):
            for to, source in zip(tensors(inputs), tensors(sample["inputs"])):
                to.copy_(source)
            runner(*on_gpu(sample["inputs"])[0], **on_gpu(sample["inputs"])[1])  # Of its own, in between.
            graph.replay()
            torch.cuda.synchronize()
            compare_call(found, inputs, sample["calls"][0], "a replay")
        if not bool((neighbour == 7).all()):
            raise Wrong("a replay wrote to another tensor")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "check"))
    parser.add_argument("places", nargs="+")
    parser.add_argument("--arch", default="sm_80,sm_90")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--zoo", action="store_true")
    args = parser.parse_args()
    args.folder = Path(args.places[-1])
    args.kiln = args.places[0]
    args.folder.mkdir(parents=True, exist_ok=True)
    workers = 2
    if args.command == "prepare":
        work = prepare_all(args)
    else:
        torch.backends.cudnn.allow_tf32 = False
        workers = 1
        names = sorted(path.name[:-len(".expected")] for path in args.folder.glob("*.expected"))
        names = [name for name in names if (not args.only or name in args.only)
                 and (args.folder / f"{name}.pt2").exists()]
        work = {name: (lambda name=name: check(name, args.folder)) for name in names}
        work |= {f"{name} captured": (lambda name=name: check_captured(name, args.folder)) for name in names
                 if name not in NOT_CAPTURED}
    failed = 0

    def attempt(name):
        start = time.time()
        try:
            if args.command == "check":
                torch.use_deterministic_algorithms(name.split()[0] in DETERMINISTIC)
            work[name]()
            return name, "ok", time.time() - start
        except Exception as error:
            return name, f"{type(error).__name__}: {' '.join(str(error).split())[:600]}", time.time() - start

    with ThreadPoolExecutor(workers) as pool:
        for name, outcome, taken in pool.map(attempt, work):
            failed += outcome != "ok"
            print(f"{name:30} {taken:6.1f} s  {outcome}", flush=True)
    print(f"{args.command}: {len(work) - failed} of {len(work)}")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())

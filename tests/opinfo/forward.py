"""Cases through torch.export, `kiln compile` and PyTorch's loader: what they return, and leave in their inputs.

Each program runs on the data of its trace as it was compiled, and on other data, at another place in memory, as it was
found in the cache. Where sizes vary, the other data has other sizes.
"""

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

import torch
import torch._inductor
import torch._inductor.package
import torch.export

from comparison import difference, widened
from other_sizes import FreeSizes, free_sizes, keeps_its_sizes, resize
from samples import Refusal, tensors_of
from stages import TIMEOUT, divide, first_line, said_by


class Poison:
    """Patterns that glibc's malloc fills memory with; 0 leaves it as it is."""

    trace, run = 0, 0

    @staticmethod
    def fill(pattern):
        mallopt_perturb = -6
        ctypes.CDLL(None).mallopt(mallopt_perturb, pattern)


class Together(torch.nn.Module):
    """Cases in a row, each on its own inputs."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *tensors):
        results, next_input = [], 0
        for case in self.cases:
            end = next_input + len(case.inputs)
            results.append(case(*tensors[next_input:end]))
            next_input = end
        return results


def compiled(kiln, archive, package, folder):
    done = subprocess.run([kiln, "compile", archive, "-o", package], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "MALLOC_PERTURB_": str(Poison.trace), "KILN_CACHE_DIR": folder,
                               "KILN_CACHE_SYNC": "off"})
    if done.returncode != 0:
        raise Refusal("compile" if done.returncode == 1 else "crash", said_by(done.stderr))
    return torch._inductor.aoti_load_package(package)


def run(model, cases, other):
    """What each case returns, and its inputs behind the call."""
    inputs = [case.fresh_inputs(other) for case in cases]
    torch.manual_seed(1)
    Poison.fill(Poison.run)
    try:
        found = tensors_of(model(*[tensor for one in inputs for tensor in one]))
    finally:
        Poison.fill(0)
    return found, inputs


def expected(cases, other):
    torch.manual_seed(1)
    inputs = [case.fresh_inputs(other) for case in cases]
    return [case(*one) for case, one in zip(cases, inputs)], inputs


def compile_and_run(kiln, cases, folder):
    """Runs of a program: on the data of its trace, and on others from the cache."""
    inputs = [tensor for case in cases for tensor in case.fresh_inputs()]
    archive = str(Path(folder, "in.pt2"))
    try:
        sizes = {} if FreeSizes.seed is None else {"dynamic_shapes": free_sizes(inputs)}
        program = torch.export.export(Together(cases), tuple(inputs), strict=False, **sizes)
        torch.export.save(program, archive)
    except Exception as error:
        raise Refusal("export", f"{type(error).__name__}: {first_line(error)}") from None
    if sizes:
        resize(program, cases)
    runs = []
    for other in (False, True):
        try:
            model = compiled(kiln, archive, str(Path(folder, f"{other}.pt2")), folder)
            runs.append(run(model, cases, other))
        except (Refusal, subprocess.TimeoutExpired):
            raise
        except Exception as error:
            if len(cases) == 1 and other and keeps_its_sizes(cases[0], error):
                break
            raise Refusal("run", first_line(error)) from None
    return runs


def wrong_in(cases, found, inputs, other, results):
    """Fills `results` for the cases whose results are wrong."""
    wanted, left = expected(cases, other)
    next_result = 0
    for case, one, before, after in zip(cases, wanted, left, inputs):
        part = found[next_result:next_result + len(one)]
        next_result += len(one)

        def wider(case=case):
            torch.manual_seed(1)
            taken = [widened(tensor) for tensor in case.fresh_inputs(other)]
            return case(*taken) + taken

        what = difference(case, one + before, part + after, wider)
        if what:
            results[str(case)] = ["wrong", f"{'on other data, from the cache: ' if other else ''}{what}"]


def run_batch(kiln, cases, results):
    """Fills `results` with [stage, reason] by case; halves the batch where it fails as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            runs = compile_and_run(kiln, cases, folder)
        except Refusal as refusal:
            divide(refusal, cases, results, str, lambda part: run_batch(kiln, part, results))
            return
    results.update({str(case): ["ok", case.remark] for case in cases})
    for other, (found, inputs) in enumerate(runs):
        wrong_in(cases, found, inputs, bool(other), results)

"""Cases as training steps: traced to TorchScript, compiled with `kiln::compile`, and differentiated.

The program kiln-opinfo-gradients runs each one on the data of the trace and on other data; what it returns and its
gradients are compared with eager's.
"""

import os
import platform
import subprocess
import tempfile
from pathlib import Path

import torch

from comparison import difference, widened
from forward import Together
from samples import Refusal
from stages import TIMEOUT, divide, first_line, said_by


class Flat(torch.nn.Module):
    """Cases in a row that return a tuple, as a trace does."""

    def __init__(self, cases):
        super().__init__()
        self.together = Together(cases)

    def forward(self, *tensors):
        return tuple(tensor for results in self.together(*tensors) for tensor in results)


def differentiable(tensors):
    return [tensor for tensor in tensors if tensor.requires_grad]


def cotangents(outputs):
    torch.manual_seed(2)
    return [torch.randn(tensor.shape, dtype=torch.complex128 if tensor.is_complex() else torch.float64)
            for tensor in outputs]


def gradients(outputs, inputs, directions):
    """Of the inputs that require them; None where there is none."""
    if not outputs or not inputs:
        return [None] * len(inputs)
    return list(torch.autograd.grad(outputs, inputs, [direction.to(output.dtype) for output, direction in
                                                      zip(outputs, directions)], allow_unused=True))


def steps(cases, data):
    """What each case returns, and its gradients: the judge."""
    torch.manual_seed(1)
    returned = [case(*inputs) for case, inputs in zip(cases, data)]
    found = []
    for outputs, inputs in zip(returned, data):
        ends = differentiable(outputs)
        found.append([output.detach() for output in outputs] +
                     gradients(ends, differentiable(inputs), cotangents(ends)))
    return found


def has_instructions(case):
    """Whether this machine has those of libtorch's kernels: the gradient of upsampling in channels-last bfloat16 is computed
    with AArch64's bfdot, whether there is one or not."""
    is_resized = case.entry.startswith(("nn.functional.interpolate", "nn.functional.upsample"))
    if platform.machine() != "aarch64" or not is_resized or case.dtype != torch.bfloat16:
        return True
    return "bf16" in Path("/proc/cpuinfo").read_text() or all(tensor.is_contiguous() for tensor in case.inputs)


def can_train(case):
    """Whether eager differentiates it, with something to show for it."""
    if not has_instructions(case):
        return False
    try:
        for other in (False, True):
            inputs = case.fresh_inputs(other)
            [found] = steps([case], [inputs])
            # No pickle that C++ reads has halves that are complex.
            if any(tensor is not None and tensor.dtype == torch.complex32 for tensor in found):
                return False
            if not differentiable(inputs) or all(tensor is None for tensor in found[-len(differentiable(inputs)):]):
                return False
    except Exception:
        return False
    return True


def run_program(program, cases, folder):
    """Results and gradients of all cases, on both kinds of data."""
    module, sets_file, results = (str(Path(folder, name)) for name in ("module.pt", "sets.pt", "results.pt"))
    sets = []
    for other in (False, True):
        data = [case.fresh_inputs(other) for case in cases]
        torch.manual_seed(1)
        ends = [differentiable(case(*case_data)) for case, case_data in zip(cases, data)]
        directions = [direction.to(end.dtype) for case_ends in ends
                      for direction, end in zip(cotangents(case_ends), case_ends)]
        # Fresh ones again: a case may write into its inputs.
        taken = [tensor for case in cases for tensor in case.fresh_inputs(other)]
        sets.append(([tensor.detach() for tensor in taken], [tensor.requires_grad for tensor in taken], directions))
    try:
        taken = [tensor for case in cases for tensor in case.fresh_inputs()]
        torch.jit.save(torch.jit.trace(Flat(cases), tuple(taken), check_trace=False), module)
    except Exception as error:
        raise Refusal("trace", f"{type(error).__name__}: {first_line(error)}") from None
    torch.save(sets, sets_file)
    done = subprocess.run([program, module, sets_file, results], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "KILN_CACHE_DIR": folder, "KILN_CACHE_SYNC": "off"})
    if done.returncode != 0:
        raise Refusal("compile" if done.returncode == 1 else "crash", said_by(done.stderr))
    return torch.load(results, weights_only=False)


def run_batch(program, cases, results):
    """Fills `results` with [stage, reason] by case; halves the batch where it fails as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = run_program(program, cases, folder)
        except Refusal as refusal:
            divide(refusal, cases, results, "{} gradient".format, lambda part: run_batch(program, part, results))
            return
    results.update({f"{case} gradient": ["ok", case.remark] for case in cases})
    for other, (outputs, grads) in enumerate(found):
        data = [case.fresh_inputs(bool(other)) for case in cases]
        next_output = next_gradient = 0
        for case, inputs, wanted in zip(cases, data, steps(cases, data)):
            count = len(differentiable(inputs))
            part = list(outputs[next_output:next_output + len(wanted) - count])
            part += list(grads[next_gradient:next_gradient + count])
            next_output, next_gradient = next_output + len(wanted) - count, next_gradient + count

            def wider(case=case):
                return steps([case], [[widened(tensor) for tensor in case.fresh_inputs(bool(other))]])[0]

            what = difference(case, wanted, part, wider, len(wanted) - count)
            if what:
                results[f"{case} gradient"] = ["wrong", f"{'on other data: ' if other else ''}{what}"]

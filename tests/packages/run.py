"""Small programs as packages, each against eager: results, inputs after the call, strides and the sign of zero.

    run.py KILN [--only PART ...]

Every program is one that a compiled package once computed otherwise without a word. It is exported, compiled, loaded
by PyTorch's own runner, and called twice, because a call may leave something behind.
"""

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch

import memory
import numbers_at_limits
import outputs


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def flat(results):
    if isinstance(results, dict):
        results = tuple(results.values())
    return [leaf for part in results for leaf in flat(part)] if isinstance(results, (tuple, list)) else [results]


def copies(inputs):
    """Of the inputs, as they are laid out."""
    made = []
    for tensor in inputs:
        whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().clone())
        made.append(whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()))
    return tuple(made)


def used_strides(tensor):
    """Of dimensions that have more than one element."""
    return [stride for size, stride in zip(tensor.size(), tensor.stride()) if size > 1] if tensor.numel() else []


def difference(found, expected):
    """What is different, in words, or nothing."""
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        return None if type(found) is type(expected) and found == expected else f"{found} instead of {expected}"
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if used_strides(found) != used_strides(expected):
        return f"strides {found.stride()} instead of {expected.stride()}"
    is_half = expected.dtype in (torch.float16, torch.bfloat16)
    try:
        torch.testing.assert_close(found, expected, rtol=1e-2 if is_half else 1e-5, atol=0, equal_nan=True)
    except AssertionError as error:
        return str(error).replace("\n", " ")
    if expected.is_floating_point() and not torch.equal(found.signbit()[expected == 0], expected.signbit()[expected == 0]):
        return "a zero has the other sign"
    return None


def shared_memory(tensors):
    """Which of them lie on the memory of which others."""
    places = [leaf.untyped_storage().data_ptr() for leaf in tensors if isinstance(leaf, torch.Tensor) and leaf.numel()]
    return [places.index(place) for place in places]


def check(kiln, program, inputs, folder):
    """What is wrong, or nothing."""
    module = program if isinstance(program, torch.nn.Module) else Program(program)
    archive, package = folder / "program.pt2", folder / "package.pt2"
    torch.export.save(torch.export.export(module, copies(inputs), strict=False), archive)
    done = subprocess.run([kiln, "compile", archive, "-o", package, "--no-cache"], capture_output=True, text=True)
    if done.returncode != 0:
        return f"compile: {done.stderr.strip()[-300:]}"
    runner = torch._inductor.aoti_load_package(str(package))
    for call in range(2):
        given, own = copies(inputs), copies(inputs)
        found, expected = flat(runner(*given)), flat(module(*own))
        if len(found) != len(expected):
            return f"{len(found)} results instead of {len(expected)}"
        together, alone = shared_memory([*given, *found]), shared_memory([*own, *expected])
        if together != alone:
            return f"inputs and results share memory as {together} instead of {alone}"
        named = [(f"result {number}", *pair) for number, pair in enumerate(zip(found, expected))]
        named += [(f"input {number} after the call", *pair) for number, pair in enumerate(zip(given, own))]
        for name, one, other in named:
            if wrong := difference(one, other):
                return f"call {call + 1}, {name}: {wrong}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("--only", nargs="+", default=[], help="programs whose names have one of these parts")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    ran, failed = 0, 0
    with torch.no_grad():
        for suite in (numbers_at_limits, memory, outputs):
            for name, (program, inputs) in suite.programs().items():
                if arguments.only and not any(part in name for part in arguments.only):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        wrong = check(arguments.kiln, program, inputs, Path(folder))
                    except (RuntimeError, ValueError) as error:
                        wrong = str(error).splitlines()[0]
                ran += 1
                failed += wrong is not None
                if wrong:
                    print(f"{name}: {wrong}", flush=True)
    print(f"{ran} programs, {failed} wrong")
    return int(failed != 0 or ran == 0)


if __name__ == "__main__":
    sys.exit(main())

"""What one process of ./dev bench cuda models does: a step of one model.

usage: peer.py STEP NAME FOLDER DEVICE

What it finds goes to FOLDER/STEP.json after each number, so that those before a crash are kept. While it measures
calls there is a file FOLDER/measuring: that is when device memory is looked at.
"""

import json
import os
import statistics
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from examples import input_of, model_of  # noqa: E402: it silences transformers

step, name, folder, device = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
ON_GPU = device == "cuda"


class Found(dict):
    """Numbers that are written down as they come."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        part = folder / f"{step}.part"
        part.write_text(json.dumps(self))
        part.replace(folder / f"{step}.json")


found = Found()
kept = []


def synchronize():
    if ON_GPU:
        torch.cuda.synchronize()


def seconds_of(function, *arguments):
    synchronize()
    start = time.perf_counter()
    result = function(*arguments)
    synchronize()
    return result, time.perf_counter() - start


@contextmanager
def measuring():
    """Nothing that was needed only before is still held."""
    if ON_GPU:
        torch.cuda.empty_cache()
    (folder / "measuring").touch()
    try:
        yield
        time.sleep(0.1)
    finally:
        (folder / "measuring").unlink()


def milliseconds(function, x, phase=None):
    """The median of calls, each until the device has done it."""
    for _ in range(10 if ON_GPU else 1):
        function(x)
    with phase or measuring():
        return statistics.median(seconds_of(function, x)[1] for _ in range(50 if ON_GPU else 3)) * 1e3


def note_kernels(function, x, calls=5, most=12):
    """What the device itself takes for a call, and which kernels take most of it."""
    if not ON_GPU:
        return
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(calls):
            function(x)
        synchronize()
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_device_time_total)
    found["busy_ms"] = sum(event.self_device_time_total for event in events) / 1e3 / calls
    found["kernels"] = [{"name": event.key[:100], "ms": event.self_device_time_total / 1e3 / calls,
                         "launches": event.count / calls} for event in events[:most]]


def export():
    torch.export.save(torch.export.export(model_of(name), (input_of(name),), strict=False), folder / "archive.pt2")


def compile_with_aotinductor():
    import torch._inductor
    program = torch.export.export(model_of(name).to(device), (input_of(name).to(device),), strict=False)
    package = str(folder / "aotinductor.part.pt2")
    _, seconds = seconds_of(lambda: torch._inductor.aoti_compile_and_package(program, package_path=package))
    found["compile_s"] = seconds
    os.replace(package, folder / "aotinductor.pt2")


def load(package, x):
    """A package in PyTorch's loader, once that has loaded it before: the first time it imports and looks for compilers.

    The first is not destroyed, in case that fails, so memory is not looked at.
    """
    import torch._inductor
    path = str(folder / package)
    kept.append(torch._inductor.aoti_load_package(path))
    loaded, seconds = seconds_of(torch._inductor.aoti_load_package, path)
    found["load_ms"] = seconds * 1e3
    result, seconds = seconds_of(loaded, x)
    found["first_ms"] = seconds * 1e3
    found["ms"] = milliseconds(loaded, x, nullcontext())
    note_kernels(loaded, x)
    return result.clone()


def measure_kiln():
    x = input_of(name).to(device)
    result = load("kiln.pt2", x)
    model = model_of(name).to(device)
    eager = model(x).clone()
    exact = model.double()(x.double() if x.is_floating_point() else x)
    error = lambda found: ((found.double() - exact).norm() / exact.norm()).item()
    found["error"] = error(result)
    found["eager_error"] = error(eager)


def measure_aotinductor():
    load("aotinductor.pt2", input_of(name).to(device))


def measure_torch_compile():
    model, x = model_of(name).to(device), input_of(name).to(device)
    model(x)
    found["eager_ms"] = milliseconds(model, x)
    compiled = torch.compile(model)
    found["compile_s"] = seconds_of(compiled, x)[1]
    found["ms"] = milliseconds(compiled, x)
    note_kernels(compiled, x)


def measure_reduce_overhead():
    model, x = model_of(name).to(device), input_of(name).to(device)
    found["ms"] = milliseconds(torch.compile(model, mode="reduce-overhead"), x)


STEPS = {
    "export": export,
    "compile AOTInductor": compile_with_aotinductor,
    "kiln": measure_kiln,
    "AOTInductor": measure_aotinductor,
    "torch.compile": measure_torch_compile,
    "reduce-overhead": measure_reduce_overhead,
}

if __name__ == "__main__":
    with torch.no_grad():
        STEPS[step]()
    found["done"] = True

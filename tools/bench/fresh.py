"""One candidate in a process of its own: how soon it answers, and how much memory it takes.

usage: fresh.py LABEL MODEL DTYPE THREADS INPUTS.pt [PACKAGE.pt2]

Prints JSON: milliseconds from a process that has imported torch to the first result (`start_ms`), of it the first call
(`first_call_ms`), and the megabytes that the process grew by at its peak (`peak_mb`).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time


def start(label, model, dtype, threads, inputs, package=None, **environment):
    """Runs this file; what it prints, or nothing if it fails."""
    command = [sys.executable, __file__, label, model, str(dtype).removeprefix("torch."), str(threads), inputs]
    command += [package] if package else []
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **environment))
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def memory_mb(field):
    """VmRSS: what the process has now; VmHWM: the most that it had."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M).group(1)) * 1024 / 1e6


def main():
    label, model, dtype, threads, inputs, *package = sys.argv[1:]
    import torch

    torch.set_num_threads(int(threads))
    if package:
        from torch._inductor.package import load_package  # to import Python code is not to start
    elif label == "torch.compile":
        import torch._inductor.compile_fx
    arguments = torch.load(inputs)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak of the imports is not meant
    before, begin = memory_mb("VmRSS"), time.perf_counter()
    with torch.no_grad():
        if package:
            call = load_package(package[0])
        else:
            from candidates import made

            call, _ = made(model, getattr(torch, dtype))
            begin = time.perf_counter()  # to make the weights is not to start
            if label == "torch.compile":
                call = torch.compile(call)
        ready = time.perf_counter()
        call(*arguments)
    end = time.perf_counter()
    grown = memory_mb("VmHWM") - before
    result = {"start_ms": (end - begin) * 1e3, "first_call_ms": (end - ready) * 1e3, "peak_mb": grown}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

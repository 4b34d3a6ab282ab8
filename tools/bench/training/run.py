"""./dev bench training: a training step of a 4-layer perceptron on 1x256 and of GPT-2 on 1x128, and what the wrappers round a compiled
graph cost.

usage: run.py [--seconds S] [--rounds N] [--clock wall|cpu] [--threads N] [--no-gpt2] [--check] [--json FILE]

A step sets gradients to none, computes a loss and runs its backward. In each round the C++ program times libtorch's eager mode
and Kiln in turn, then Python times PyTorch's eager mode and torch.compile in turn; the best slice of all rounds counts.
`--clock cpu` counts the time that the process works instead of the time that passes, for a machine that others use too.
GPT-2 is timed in two processes as well, which take turns step by step; the median counts. It takes two minutes.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import models  # noqa: E402: the models of ./dev bench stand one folder up

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
PROGRAM = ROOT / "build" / "bin" / "kiln-training-bench"
GPT2_ROUNDS = 9
# Of these the largest of all rounds counts.
WORST = {"retraces", "retrace_share"}
GPT2_PROGRAM = ROOT / "build" / "bin" / "kiln-warm-start"


def network():
    torch.manual_seed(0)
    return nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())])


def step_of(compiled):
    module = network()
    x = torch.ones(1, 256)

    def loss(x):
        return module(x).square().mean()

    call = torch.compile(loss) if compiled else loss

    def step():
        module.zero_grad()
        call(x).backward()

    return step


def slice_us(step, clock, seconds):
    start = clock()
    calls = 0
    while clock() - start < seconds:
        for _ in range(10):
            step()
        calls += 10
    return (clock() - start) / calls * 1e6


def python_round(steps, clock, seconds):
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(10):
        for name, step in steps.items():
            best[name] = min(best[name], slice_us(step, clock, seconds / 10))
    return best


def gpt2_step(compiled):
    torch.manual_seed(0)
    module, (tokens,) = models.gpt2()
    loss = lambda: module(tokens).logsumexp(-1).mean()
    call = torch.compile(loss) if compiled else loss

    def step():
        module.zero_grad()
        call().backward()

    return step


def milliseconds_of(step):
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def asked(process, which):
    print(which, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def gpt2_rows(environment):
    with tempfile.TemporaryDirectory() as cache:
        process = subprocess.Popen([GPT2_PROGRAM, "steps"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=dict(environment, KILN_CACHE_DIR=cache))
        eager, compiled = gpt2_step(False), gpt2_step(True)
        steps = {
            "gpt2_eager_ms": lambda: asked(process, "eager"),
            "gpt2_kiln_ms": lambda: asked(process, "kiln"),
            "gpt2_python_eager_ms": lambda: milliseconds_of(eager),
            "gpt2_torch_compile_ms": lambda: milliseconds_of(compiled),
        }
        first = {name: step() for name, step in steps.items()}  # Compiles, and takes memory.
        rounds = [{name: step() for name, step in steps.items()} for _ in range(GPT2_ROUNDS)]
        process.stdin.close()
        process.wait()
    middle = {name: statistics.median(each[name] for each in rounds) for name in steps}
    return {**middle, "gpt2_kiln_first_ms": first["gpt2_kiln_ms"]}


def describe_gpt2(best):
    eager = best["gpt2_eager_ms"]
    lines = ["", "milliseconds a training step of GPT-2 small on 1x128, and how many times as fast as eager in C++", ""]
    for name, title in (("gpt2_eager_ms", "eager, C++"), ("gpt2_kiln_ms", "Kiln"),
                        ("gpt2_python_eager_ms", "eager, Python"), ("gpt2_torch_compile_ms", "torch.compile")):
        lines.append(f"  {title:16s} {best[name]:9.1f}   {eager / best[name]:5.2f}x")
    peer = min(best[name] for name in ("gpt2_eager_ms", "gpt2_python_eager_ms", "gpt2_torch_compile_ms"))
    return "\n".join([*lines, "", f"  target, the best of the others: {'met' if best['gpt2_kiln_ms'] <= peer else 'MISSED'}"])


def describe(best):
    eager = best["eager_us"]
    lines = ["microseconds a training step of 4 x (linear 256x256, relu) on 1x256, and how many times as fast as eager in C++", ""]
    for name, title in (("eager_us", "eager, C++"), ("kiln_us", "Kiln"), ("python_eager_us", "eager, Python"),
                        ("torch_compile_us", "torch.compile")):
        lines.append(f"  {title:16s} {best[name]:9.1f}   {eager / best[name]:5.2f}x")
    lines += ["", f"  target, half of eager's time: {'met' if best['kiln_us'] <= eager / 2 else 'MISSED'}", "",
              f"  the wrappers of a plain function: {best['wrappers_us']:.2f} us   target 2: "
              f"{'met' if best['wrappers_us'] < 2 else 'MISSED'}",
              f"  with a node in autograd's graph:  {best['wrappers_training_us']:.2f} us", "",
              f"  traced again to see whether the program changed: {best['retraces']} times, "
              f"{best['retrace_share']:.2%} of the time   target 1 %: "
              f"{'met' if best['retrace_share'] <= 0.01 else 'MISSED'}",
              f"  a step that is never compared: {best['never_compared_us']:.1f} us"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="for each of the four, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--no-gpt2", action="store_true", help="only the perceptron")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    parser.add_argument("--json", default="build/bench-training.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    steps = {"python_eager_us": step_of(False), "torch_compile_us": step_of(True)}
    for step in steps.values():
        step()
    best = {}
    for _ in range(arguments.rounds):
        answer = subprocess.run([PROGRAM, str(arguments.seconds), arguments.clock],
                                check=True, capture_output=True, text=True, env=environment).stdout
        python = python_round(steps, CLOCKS[arguments.clock], arguments.seconds)
        for name, value in {**json.loads(answer), **python}.items():
            best[name] = (max if name in WORST else min)(value, best.get(name, value))
    text = describe(best)
    if not arguments.no_gpt2:
        best |= gpt2_rows(environment)
        text += "\n" + describe_gpt2(best)
    print(text)
    pathlib.Path(arguments.json).write_text(json.dumps(best, indent=2) + "\n")
    sys.exit(1 if arguments.check and "MISSED" in text else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Real models as archives of torch.export, through everything that reads or compiles them.

Each program is exported and saved. Then the archive is loaded and its traced graph interpreted;
`kiln compile` makes a package of it; that runs in Kiln's runner and in PyTorch's. All three must give
what the module itself gives; the package also at a second call, which shows state that it keeps.
What does not work is named with its reason in refusals.txt, which may only shrink.

usage: run.py KILN INTERPRET [--quick] [--only NAME...] [--keep FOLDER]
"""

import argparse
import copy
import logging
import multiprocessing
import multiprocessing.connection
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import torch._inductor
import torch._inductor.package
from torch.export.graph_signature import ConstantArgument, OutputKind

import make_archives
import models
import pieces

logging.disable(logging.WARNING)

REFUSALS = Path(__file__).with_name("refusals.txt")
TIMEOUT = 300
# One of each family, the smallest, for ./dev test.
QUICK = ("gpt2", "llama", "mixtral", "mamba", "bert", "t5", "vit", "resnet", "whisper",
         "convolutions", "recurrent_layers", "transformer_layers", "nested")


def programs():
    """Name to a function that gives module, arguments, keyword arguments."""
    made = {name: maker for name, (_, maker) in models.MODELS.items()}
    made |= pieces.PIECES
    for name in make_archives.programs():
        made[name] = lambda name=name: make_archives.programs()[name][:3]
    return made


class Failure(Exception):
    """The stage that failed, and why."""

    def __init__(self, stage, reason):
        super().__init__(f"{stage}: {reason}")


def first_line(text):
    return next((line.strip() for line in str(text).splitlines() if line.strip()), "no reason")[:240]


def run_command(stage, command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("kiln: ")]
        raise Failure(stage, first_line(said[-1][6:] if said else
                                        f"status {done.returncode} {done.stderr}"))


def compare(stage, found, expected):
    if len(found) != len(expected):
        raise Failure(stage, f"{len(found)} results instead of {len(expected)}")
    for index, (result, wanted) in enumerate(zip(found, expected)):
        try:
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=2e-5, equal_nan=True)
        except AssertionError as error:
            what = " ".join(str(error).split())[:200]
            raise Failure(stage, f"WRONG, result {index}: {what}") from None


def without_numbers(stage, found, program):
    """What was found without None and without the program's numbers, which packages return as tensors."""
    outputs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    is_none = lambda output: isinstance(output, ConstantArgument) and output.value is None
    outputs = [output for output in outputs if not is_none(output)]
    found = [result for result in found if result is not None]
    if len(found) != len(outputs):
        raise Failure(stage, f"{len(found)} results instead of {len(outputs)}")
    for result, output in zip(found, outputs):
        if isinstance(output, ConstantArgument) and result.item() != output.value:
            raise Failure(stage, f"WRONG, a number: {result.item()}, not {output.value}")
    return [result for result, output in zip(found, outputs) if not isinstance(output, ConstantArgument)]


def calls_of(function, module, arguments, keywords):
    """What two calls return and change in place, in a copy of everything."""
    module, arguments, keywords = copy.deepcopy((module, arguments, keywords))
    call = function or module
    return [make_archives.updates_of(module, arguments, keywords,
                                     lambda: call(*arguments, **keywords)) for _ in range(2)]


def check(maker, tools, folder):
    """Takes one program all the way. Returns the seconds that each stage took."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    seconds, start = {}, time.monotonic()

    def lap(stage):
        nonlocal start
        seconds[stage], start = time.monotonic() - start, time.monotonic()

    archive, package = str(folder / "program.pt2"), str(folder / "package.pt2")
    traced, ran = str(folder / "interpreted.pt"), str(folder / "outputs.pt")
    with torch.no_grad():
        module, arguments, keywords = maker()
        expected = calls_of(None, module, arguments, keywords)
        lap("eager")
        program = torch.export.export(module, copy.deepcopy(arguments), copy.deepcopy(keywords),
                                      strict=False)
        torch.export.save(program, archive)
        lap("export")
        run_command("interpret", [tools.interpret, archive, traced])
        outputs, updates = torch.load(traced, weights_only=False)
        compare("interpret", outputs, expected[0][0])
        names = expected[0][1].keys()
        compare("interpret, updates", [updates[name] for name in names],
                [expected[0][1][name] for name in names])
        lap("interpret")
        run_command("compile", [tools.kiln, "compile", archive, "-o", package, "--no-cache"])
        lap("compile")
        run_command("run", [tools.kiln, "run", package, "--save", ran])
        compare("run", without_numbers("run", torch.load(ran, weights_only=False), program), expected[0][0])
        lap("run")
        runner = torch._inductor.aoti_load_package(package)
        for (found, changed), (wanted, update) in zip(
                calls_of(runner, module, arguments, keywords), expected):
            compare("PyTorch's runner", without_numbers("PyTorch's runner", found, program), wanted)
            inputs = [name for name in update if name.startswith("input")]
            compare("PyTorch's runner, updates", [changed[name] for name in inputs],
                    [update[name] for name in inputs])
        lap("PyTorch")
    return seconds


def warm_up():
    """What the first export imports and computes, before the children are made."""
    module, arguments, keywords = models.MODELS["bert"][1]()
    torch.export.export(module, arguments, keywords, strict=False)


def child_main(maker, tools, folder, connection):
    """Runs in a process of its own: a crash takes nothing with it."""
    try:
        connection.send((None, check(maker, tools, folder)))
    except Failure as failure:
        connection.send((str(failure), {}))
    except BaseException:
        traceback.print_exc()
        connection.send(("error: " + first_line(traceback.format_exc(limit=0)), {}))


def check_all(chosen, tools, root, workers):
    """Name to (reason or None, seconds by stage)."""
    results, queue, running = {}, list(chosen.items()), {}
    while queue or running:
        while queue and len(running) < workers:
            name, maker = queue.pop(0)
            folder = root / name
            folder.mkdir(parents=True)
            receiver, sender = multiprocessing.Pipe(duplex=False)
            child = multiprocessing.Process(target=child_main, args=(maker, tools, folder, sender))
            child.start()
            sender.close()
            running[receiver] = (name, child)
        for receiver in multiprocessing.connection.wait(running):
            name, child = running.pop(receiver)
            try:
                results[name] = receiver.recv()
            except EOFError:
                results[name] = ("crash", {})
            child.join()
            reason, seconds = results[name]
            print(f"{name:20} {reason or 'ok':12}",
                  " ".join(f"{stage} {value:.1f}" for stage, value in seconds.items()), flush=True)
    return results


def read_refusals():
    if not REFUSALS.exists():
        return {}
    lines = [line for line in REFUSALS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(None, 1) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kiln")
    parser.add_argument("interpret")
    parser.add_argument("--quick", action="store_true", help="one of each family only")
    parser.add_argument("--only", nargs="+", help="these programs only")
    parser.add_argument("--keep", type=Path, help="leave archives and packages in this folder")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    tools = parser.parse_args()

    multiprocessing.set_start_method("fork")
    every = programs()
    names = tools.only or (QUICK if tools.quick else list(every))
    root = tools.keep or Path(tempfile.mkdtemp(prefix="kiln-zoo-"))
    start = time.monotonic()
    warm_up()
    try:
        results = check_all({name: every[name] for name in names}, tools, root, tools.workers)
    finally:
        if not tools.keep:
            shutil.rmtree(root, ignore_errors=True)

    known = read_refusals()
    failed = {name: reason for name, (reason, _) in results.items() if reason}
    new = {name: reason for name, reason in failed.items()
           if "WRONG" in reason or reason == "crash" or not reason.startswith(known.get(name, "-"))}
    mended = [name for name in known if name in results and name not in failed]
    print(f"{len(results)} programs in {time.monotonic() - start:.0f} s: "
          f"{len(results) - len(failed)} equal to PyTorch, {len(failed)} refused")
    for name, reason in new.items():
        print(f"FAILED  {name}: {reason}")
    for name in mended:
        print(f"WORKS   {name}: take it out of refusals.txt")
    return 1 if new or mended else 0


if __name__ == "__main__":
    sys.exit(main())

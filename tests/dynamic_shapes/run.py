#!/usr/bin/env python3
"""One package for every size: archives with Dims, compiled once, run at many sizes.

Each program is exported with dimensions that vary, compiled by `kiln compile`, and run in PyTorch's
runner at the ends of its ranges, at sizes that matter and at some that are drawn by the seed, which
is printed; at an end also in Kiln's runner. Results must be those of the module. Inputs that break a
relation between sizes, or a range, must be refused with the message that names them.

usage: run.py KILN {cases,models,random} [--only NAME...] [--seed N] [--draws N] [--programs N] [--keep FOLDER]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch
import torch._inductor

import cases
import programs
import random_programs


class Wrong(Exception):
    """What is not as it should be."""


def as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def compare(found, expected, where, exact=False):
    found, expected = as_list(found), as_list(expected)
    if len(found) != len(expected):
        raise Wrong(f"{where}: {len(found)} results instead of {len(expected)}")
    for result, wanted in zip(found, expected):
        wanted = torch.as_tensor(wanted)  # A package returns integers as tensors, as AOTInductor's do.
        digits = {"rtol": 0, "atol": 0} if exact and wanted.dtype == torch.float64 else {"rtol": 1e-4, "atol": 2e-5}
        try:
            torch.testing.assert_close(result, wanted, equal_nan=True, **digits)
        except AssertionError as error:
            raise Wrong(f"{where}: {' '.join(str(error).split())[:200]}") from None


def sizes_of(case, draws):
    """The example's, the ends, one symbol at an end, sizes of the case, and some that are drawn."""
    yield case.example
    if case.fixed:
        return
    yield {name: low for name, (low, _) in case.ranges.items()}
    yield {name: high for name, (_, high) in case.ranges.items()}
    for name, ends in case.ranges.items():
        for end in ends:
            yield {**case.example, name: end}
    yield from case.at
    for _ in range(draws):
        yield {name: random.randint(low, high) for name, (low, high) in case.ranges.items()}


def compile_case(kiln, case, folder):
    archive, package = folder / "program.pt2", folder / "package.pt2"
    takes_any_number = isinstance(case.module, (cases.Function, random_programs.Program))
    program = torch.export.export(case.module, case.inputs(**case.example), strict=False,
                                  dynamic_shapes=(case.dims,) if takes_any_number else case.dims)
    torch.export.save(program, archive)
    done = subprocess.run([kiln, "compile", archive, "-o", package, "--no-cache", "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(f"compile: {done.stderr.strip()[-300:]}")
    return package, json.loads(done.stdout)


def as_passed(arguments):
    """A package takes integers as tensors, as AOTInductor's do."""
    return [torch.tensor(each) if isinstance(each, int) else each for each in arguments]


def check_refusal(runner, arguments, part):
    try:
        runner(*arguments)
    except RuntimeError as error:
        if part not in str(error):
            raise Wrong(f"refused without saying '{part}': {error}") from None
        return
    shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in arguments]
    raise Wrong(f"inputs of {shapes} were not refused")


def run_in_kiln(kiln, package, inputs, folder):
    files = []
    for number, tensor in enumerate(as_passed(inputs)):
        files.append(folder / f"input{number}.pt")
        torch.save(tensor, files[-1])
    out = folder / "outputs.pt"
    done = subprocess.run([kiln, "run", package, "--save", out, "--inputs", *files],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(f"Kiln's runner: {done.stderr.strip()[-300:]}")
    return torch.load(out, weights_only=False)


def check(kiln, case, draws, folder):
    case.module.eval()
    package, report = compile_case(kiln, case, folder)
    said = report["specialisations"]
    fixed = [sentence.split(":")[0] for sentence in said if sentence.startswith("input")]
    expected = [f"input '{name}', an integer" if dimension is None else f"input '{name}', dimension {dimension}"
                for name, dimension in case.fixed]
    if fixed != expected or bool(said) != bool(expected):
        raise Wrong(f"sizes do not vary as they should: {said}")
    runner = torch._inductor.aoti_load_package(str(package))
    runs = 0
    for number, sizes in enumerate(sizes_of(case, draws)):
        inputs = case.inputs(**sizes)
        wanted = case.module(*inputs)
        try:
            compare(runner(*as_passed(inputs)), wanted, f"at {sizes}", case.exact)
        except RuntimeError as error:
            raise Wrong(f"at {sizes}: {str(error)[:300]}") from None
        if number < 3 and case.small:
            compare(run_in_kiln(kiln, package, inputs, folder), wanted, f"Kiln's runner at {sizes}",
                    case.exact)
        runs += 1
    for arguments, part in case.refused:
        check_refusal(runner, as_passed(arguments), part)
    if any(isinstance(each, int) for each in case.inputs(**case.example)):
        # PyTorch's runner drops them. Kiln's knows from the call spec which of them to pass on.
        if '"integer":true' not in runner.loader.get_call_spec()[0]:
            raise Wrong("the call spec does not say which arguments are integers")
        check_refusal(runner, case.inputs(**case.example), "expected inputs vector size")
    return f"{runs} sizes, {len(case.refused)} refusals"


def programs_of(arguments):
    """Name to a case, or to what makes one."""
    if arguments.which == "cases":
        return cases.cases()
    if arguments.which == "models":
        return programs.programs()
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    return {f"seed {seed}": lambda seed=seed: random_programs.random_case(seed) for seed in seeds}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kiln")
    parser.add_argument("which", choices=("cases", "models", "random"))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--programs", type=int, default=20, help="random ones, of seeds in a row")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()

    made = programs_of(arguments)
    failed = 0
    print(f"seed {arguments.seed}")
    for name, case in made.items():
        if arguments.only and not any(name.startswith(wanted) for wanted in arguments.only):
            continue
        torch.manual_seed(arguments.seed)
        random.seed(arguments.seed)
        with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
            folder = (arguments.keep / name.replace(" ", "_")) if arguments.keep else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                made_case = case() if callable(case) else case
                print(f"ok      {name}: {check(arguments.kiln, made_case, arguments.draws, folder)}",
                      flush=True)
            except torch._dynamo.exc.UserError as error:
                print(f"skipped {name}: PyTorch does not export it, {str(error).splitlines()[0]}")
                failed += arguments.which != "random"
            except Exception as error:
                failed += 1
                what = error if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
                print(f"FAILED  {name}: {str(what)[:600]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

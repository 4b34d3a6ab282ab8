#!/usr/bin/env python3
"""One package for every size: archives with Dims, compiled once, run at many sizes.

Each program is exported with dimensions that vary, compiled by `kiln compile`, and run in PyTorch's
runner and in Kiln's at the ends of its ranges, at sizes that matter and at some that are drawn by the
seed, which is printed: 20 different sizes, 50 for random programs, which the interpreter runs too.
Results must be those of the module. Inputs that break a relation between sizes, or a range, must be
refused by both runners, with the message that names them.

usage: run.py KILN AT_SIZES {cases,models,random} [--quick] [--part N/M] [--only NAME...] [--seed N]
              [--sizes N] [--programs N] [--keep FOLDER]
"""

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
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


def wanted_sizes(case):
    """The example's, the ends, one symbol at an end, sizes of the case, and then what is drawn."""
    yield case.example
    yield {name: low for name, (low, _) in case.ranges.items()}
    yield {name: high for name, (_, high) in case.ranges.items()}
    for name, ends in case.ranges.items():
        for end in ends:
            yield {**case.example, name: end}
            yield {**{other: low for other, (low, _) in case.ranges.items()}, name: end}
    yield from case.at
    while True:
        yield {name: random.randint(low, high) for name, (low, high) in case.ranges.items()}


def sizes_of(case, count):
    """That many that differ, and those of the case; fewer where ranges have no more."""
    if case.fixed:
        return [case.example]
    possible = math.prod(high - low + 1 for low, high in case.ranges.values())
    least = len(case.at) + 4 * len(case.ranges) + 3
    found = []
    for tried, sizes in enumerate(wanted_sizes(case)):
        if tried >= least and len(found) >= min(count, possible) or tried > least + 100 * count:
            return found
        if sizes not in found and math.prod(sizes.values()) <= case.most:
            found.append(sizes)


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
    return archive, package, json.loads(done.stdout)


def as_passed(arguments):
    """A package takes integers as tensors, as AOTInductor's do."""
    return [torch.tensor(each) if isinstance(each, int) else each for each in arguments]


def plain(message):
    """With the symbols, which PyTorch numbers, numbered as they come."""
    names = {}
    return re.sub(r"\bs\d+\b", lambda name: names.setdefault(name[0], f"s{len(names)}"), message)


def message_of(text):
    """Without what Kiln's runner says before it."""
    last = text.strip().splitlines()[-1]
    return plain(re.sub(r"^kiln: invalid argument: (running the model failed: )?", "", last))


def check_refusal(refuse, arguments, expected, where):
    message = refuse(arguments)
    if message is None:
        shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in arguments]
        raise Wrong(f"{where}: inputs of {shapes} were not refused")
    if message_of(message) != expected:
        raise Wrong(f"{where}: refused with '{message_of(message)}' instead of '{expected}'")


def refusal_in_pytorch(runner):
    def refuse(arguments):
        try:
            runner(*arguments)
        except RuntimeError as error:
            return str(error)
        return None

    return refuse


def refusal_in_kiln(kiln, package, folder):
    def refuse(arguments):
        files = []
        for number, tensor in enumerate(as_passed(arguments)):
            files.append(folder / f"input{number}.pt")
            torch.save(tensor, files[-1])
        done = subprocess.run([kiln, "run", package, "--inputs", *files], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr

    return refuse


class AtSizes:
    """Kiln's runner, or its interpreter, on many inputs in one process."""

    def __init__(self, tool, folder):
        self.tool, self.folder = tool, folder

    def results(self, calls, *arguments):
        """For each call a list of results, or the message of one that was refused."""
        saved, results = self.folder / "calls.pt", self.folder / "results.pt"
        torch.save([as_passed(call) for call in calls], saved)
        done = subprocess.run([self.tool, *arguments, saved, results], capture_output=True, text=True)
        if done.returncode != 0:
            raise Wrong(f"kiln-at-sizes: {done.stderr.strip()[-300:]}")
        return torch.load(results, weights_only=False)


def results_in_pytorch(runner, inputs):
    try:
        return runner(*as_passed(inputs))
    except RuntimeError as error:
        return str(error)


# What a report says of sizes that do not vary, or vary less than was asked for.
REASONS = (
    r"input '\w+', dimension \d+: .+ in \[\d+, \d+\].*, fixed at \d+",
    r"'\w+' (is \d+|in \[\d+, \d+\], not \[\d+, \d+\]): "
    r"(where '\w+' is \d+|operator \d+, |larger inputs are not traced|not together with other sizes that vary"
    r"|there are too few sizes in its range)",
    r"'\w+' does not vary: the archive's guard \".+\" cannot be checked in a call")
# What runners and the interpreter say of a size that is out of its range, or breaks a relation.
REFUSALS = (
    r"input \d+ '\w+', dimension \d+: .*(must be|but )",
    r"input \d+ '\w+': expected sizes \[.+\], but got \[.+\]",
    r"the program was traced for sizes with '.+', but ",
    r"the sizes break '.+', which the program was traced under: ")


def check_known(message, forms, where):
    if "internal: " in message or not any(re.search(form, message) for form in forms):
        raise Wrong(f"{where} in words that are not known: {message[:300]}")


def report_of_fixed(case, report):
    """Whether sizes do not vary, or vary less than was asked for, and the report says why."""
    said = report["specialisations"]
    if case.may_be_fixed:
        for sentence in said:
            check_known(sentence, REASONS, "sizes are fixed")
        return bool(said)
    fixed = [sentence.split(":")[0] for sentence in said if sentence.startswith("input")]
    expected = [f"input '{name}', an integer" if dimension is None else f"input '{name}', dimension {dimension}"
                for name, dimension in case.fixed]
    if fixed != expected or bool(said) != bool(expected):
        raise Wrong(f"sizes do not vary as they should: {said}")
    return False


def check_sizes(case, archive, package, runner, at_sizes, options, may_refuse):
    """Returns at how many sizes it was run, and how many of those it refused."""
    sizes = sizes_of(case, options.sizes if case.small else 0)
    calls = (case.inputs(**each) for each in sizes)  # One at a time, where they are large.
    others = {}
    if case.small:
        calls = list(calls)
        others["Kiln's runner"] = at_sizes.results(calls, package)
    if case.may_be_fixed:
        others["the interpreter"] = at_sizes.results(calls, "--interpret", archive)
    refused = 0
    for number, (each, inputs) in enumerate(zip(sizes, calls)):
        wanted = case.module(*inputs)
        runs = {"PyTorch's runner": results_in_pytorch(runner, inputs)}
        runs |= {where: results[number] for where, results in others.items()}
        for where, found in runs.items():
            if isinstance(found, str) and may_refuse and number > 0:
                check_known(found, REFUSALS, f"{where} at {each}: refused")
                refused += where == "PyTorch's runner"
            elif isinstance(found, str):
                raise Wrong(f"{where} at {each}: {found[:300]}")
            else:
                compare(found, wanted, f"{where} at {each}", case.exact)
    return len(sizes), refused


def check(case, options, folder):
    """Returns what was done, and whether most sizes in the ranges are taken."""
    case.module.eval()
    archive, package, report = compile_case(options.kiln, case, folder)
    may_refuse = report_of_fixed(case, report)
    varies = any(low < high for low, high in case.ranges.values()) and not case.fixed and not may_refuse
    if report["traces"] < (2 if varies else 1):
        raise Wrong(f"the report counts {report['traces']} traces")
    runner = torch._inductor.aoti_load_package(str(package))
    at_sizes = AtSizes(options.at_sizes, folder)
    runs, refused = check_sizes(case, archive, package, runner, at_sizes, options, may_refuse)
    for arguments, message in case.refused:
        check_refusal(refusal_in_pytorch(runner), as_passed(arguments), message, "PyTorch's runner")
        check_refusal(refusal_in_kiln(options.kiln, package, folder), arguments, message, "kiln run")
    if any(isinstance(each, int) for each in case.inputs(**case.example)):
        # PyTorch's runner drops them. Kiln's knows from the call spec which of them to pass on.
        if '"integer":true' not in runner.loader.get_call_spec()[0]:
            raise Wrong("the call spec does not say which arguments are integers")
        message = refusal_in_pytorch(runner)(case.inputs(**case.example))
        if message is None or "expected inputs vector size" not in message:
            raise Wrong(f"PyTorch's runner has another way with integers: {message}")
    done = f"{runs} sizes, {len(case.refused)} refusals"
    if may_refuse:
        done += f", {refused} sizes not taken: {report['specialisations'][-1]}"
    return done, refused <= runs // 2


def vary_enough(varied, programs):
    """`varied` has for each random program that was exported whether its sizes vary."""
    print(f"the sizes of {sum(varied)} of {len(varied)} programs vary")
    # A tracer that refuses everything is never wrong. A few programs say nothing of it.
    return programs < 8 or len(varied) > 0 and sum(varied) >= 7 / 8 * len(varied)


def programs_of(options):
    """Name to a case, or to what makes one."""
    if options.which == "cases":
        made = cases.cases()
        messages = {message for case in made.values() for _, message in case.refused}
        if len(messages) < 30:
            raise Wrong(f"the cases have {len(messages)} different messages")
    elif options.which == "models":
        made = programs.programs()
        if options.quick:
            made = {name: made[name] for name in programs.QUICK}
    else:
        seeds = range(options.seed, options.seed + options.programs)
        made = {f"seed {seed}": lambda seed=seed: random_programs.random_case(seed) for seed in seeds}
    part, parts = map(int, options.part.split("/"))
    return dict(list(made.items())[part - 1::parts])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kiln")
    parser.add_argument("at_sizes")
    parser.add_argument("which", choices=("cases", "models", "random"))
    parser.add_argument("--quick", action="store_true", help="what ./dev test runs")
    parser.add_argument("--part", default="1/1", help="2/3: of three programs the second")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--sizes", type=int, help="20, and 50 for random programs")
    parser.add_argument("--programs", type=int, help="random ones, of seeds in a row")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    options.sizes = options.sizes or (50 if options.which == "random" else 20)
    options.programs = options.programs or (8 if options.quick else 60)
    return options


def main():
    options = arguments()
    failed, varied = 0, []
    print(f"seed {options.seed}")
    for name, case in programs_of(options).items():
        if options.only and not any(name.startswith(wanted) for wanted in options.only):
            continue
        torch.manual_seed(options.seed)
        random.seed(options.seed)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
            folder = (options.keep / name.replace(" ", "_")) if options.keep else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                done, varies = check(case() if callable(case) else case, options, folder)
                varied.append(varies)
                print(f"ok      {name}: {done} ({time.monotonic() - start:.0f} s)", flush=True)
            except torch._dynamo.exc.UserError as error:
                print(f"skipped {name}: PyTorch does not export it, {str(error).splitlines()[0]}")
                failed += options.which != "random"
            except Exception as error:
                failed += 1
                what = error if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
                print(f"FAILED  {name}: {str(what)[:600]}", flush=True)
    if options.which == "random" and not options.only:
        failed += not vary_enough(varied, options.programs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

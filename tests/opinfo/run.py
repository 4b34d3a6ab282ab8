#!/usr/bin/env python3
"""Runs PyTorch's own operator database through `kiln compile` and PyTorch's loader.

For each entry of op_db, samples are drawn, exported with torch.export, compiled, loaded with
aoti_load_package and compared with eager. Several samples make one archive. What cannot be compiled
is named with its reason in refusals.txt, which may only shrink: a new refusal fails, and so does an
entry of the list of which every sample works. A wrong value always fails.

Which samples of an entry are drawn depends on the seed and its name alone, so that a failure comes
again with the seed that was printed, also by itself: --seed N --only NAME.

With --composite only operators that libtorch makes of others are run, and memory is poisoned: what
malloc gives out holds one pattern while a program is traced and another one while it runs. A composite
operator that fills memory behind the dispatcher's back would be recorded without what it computes.

usage: run.py KILN [--composite] [--slice N] [--samples N] [--seed N] [--only NAME...] [--write]
"""

import argparse
import copy
import ctypes
import json
import multiprocessing.connection
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import torch._inductor
import torch._inductor.package
import torch.export
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

REFUSALS = Path(__file__).with_name("refusals.txt")
BATCH = 24
TIMEOUT = 300
# What these return is whatever was in memory.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
                 "new_empty_strided", "resize_", "resize_as_"}


# Entries of random operators set the seed inside the operator, which no exported program does. Here
# it is set before a run, and draws come in the same order.
for module in list(sys.modules.values()):
    if hasattr(module, "wrapper_set_seed"):
        module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def entry_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def composite_names():
    """Operators of libtorch with a kernel that only calls others, without namespace and overload."""
    return {name.removeprefix("aten::").split(".")[0] for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and
            torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")}


def is_composite(op, names):
    return not names.isdisjoint({op.name.replace(".", "_"), op.name.split(".")[-1], op.aten_name})


class Poison:
    """Patterns that glibc's malloc fills memory with; 0 leaves it as it is."""

    trace, run = 0, 0

    @staticmethod
    def fill(pattern):
        mallopt_perturb = -6
        ctypes.CDLL(None).mallopt(mallopt_perturb, pattern)


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Case:
    """One sample of one entry: a function of the tensors among its arguments."""

    def __init__(self, op, number, sample):
        self.op, self.entry, self.number = op, entry_name(op), number
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.inputs = [leaves[i].detach() for i in self.places]
        if op.name.startswith("as_strided") and any(
                tensor.untyped_storage().nbytes() > tensor.nbytes for tensor in self.inputs):
            raise Refusal("archive", "reads memory outside its input, which no archive keeps")

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        value, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return tensors_of(self.op.op(value, *args, **kwargs))

    def fresh_inputs(self):
        return [copy.deepcopy(tensor) for tensor in self.inputs]

    def __str__(self):
        return f"{self.entry}#{self.number}"


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


def first_line(error):
    text = str(error).strip()
    line = next((line for line in text.splitlines() if line.strip()), "")
    return (re.sub(r"0x[0-9a-f]+|/\S*/", "", line) or type(error).__name__)[:160]


def make_cases(op, limit, seed):
    """Drawn, not evenly spaced: arguments alternate, and a stride can miss one of them in every sample."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    drawn = random.Random(f"{seed} {entry_name(op)}").sample(range(len(samples)), min(limit, len(samples)))
    return [Case(op, i, samples[i]) for i in sorted(drawn)], len(samples)


class Refusal(Exception):
    """An archive that cannot be made, compiled or run: the stage, and the reason."""

    def __init__(self, stage, reason):
        super().__init__(stage, reason)
        self.stage, self.reason = stage, reason


def compile_and_run(kiln, cases, folder):
    inputs = [tensor for case in cases for tensor in case.fresh_inputs()]
    archive, package = str(Path(folder, "in.pt2")), str(Path(folder, "out.pt2"))
    try:
        program = torch.export.export(Together(cases), tuple(inputs), strict=False)
        torch.export.save(program, archive)
    except Exception as error:
        raise Refusal("export", f"{type(error).__name__}: {first_line(error)}") from None
    done = subprocess.run([kiln, "compile", archive, "-o", package, "--no-cache"],
                          capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "MALLOC_PERTURB_": str(Poison.trace)})
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("kiln: ")]
        reason = said[-1].removeprefix("kiln: ") if said else done.stderr
        raise Refusal("compile" if done.returncode == 1 else "crash", first_line(reason))
    try:
        model = torch._inductor.aoti_load_package(package)
        inputs = [tensor for case in cases for tensor in case.fresh_inputs()]
        torch.manual_seed(1)
        Poison.fill(Poison.run)
        return model(*inputs)
    except Exception as error:
        raise Refusal("run", first_line(error)) from None
    finally:
        Poison.fill(0)


def difference(case, expected, found):
    if len(expected) != len(found):
        return f"{len(found)} results instead of {len(expected)}"
    for index, (wanted, result) in enumerate(zip(expected, found)):
        try:
            if case.op.name in UNINITIALISED:
                wanted = result = torch.empty_like(wanted) if wanted.shape == result.shape else wanted
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            return f"result {index}: " + " ".join(str(error).split())[:300]
    return None


def run_batch(kiln, cases, results):
    """Fills `results` with [stage, reason] by case; halves the batch where it fails as a whole."""
    torch.manual_seed(1)
    expected = [case(*case.fresh_inputs()) for case in cases]
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = compile_and_run(kiln, cases, folder)
        except Refusal as refusal:
            if len(cases) == 1:
                results[str(cases[0])] = [refusal.stage, refusal.reason]
                return
            middle = len(cases) // 2
            run_batch(kiln, cases[:middle], results)
            run_batch(kiln, cases[middle:], results)
            return
        found = pytree.tree_leaves(found)
        next_result = 0
        for case, wanted in zip(cases, expected):
            part = found[next_result:next_result + len(wanted)]
            next_result += len(wanted)
            what = difference(case, wanted, part)
            results[str(case)] = ["wrong", what] if what else ["ok", ""]


def child_main(kiln, ops, limit, seed, connection):
    torch.set_num_threads(1)
    results, cases, complete = {}, [], []
    for op in ops:
        made = []
        try:
            made, available = make_cases(op, limit, seed)
            complete += [entry_name(op)] if len(made) == available else []
            for case in made:
                case(*case.fresh_inputs())
            cases += made
        except Refusal as refusal:
            results[entry_name(op) + "#0"] = [refusal.stage, refusal.reason]
        except Exception as error:
            results[entry_name(op) + "#0"] = ["eager", first_line(error)]
    connection.send(("progress", None))
    for start in range(0, len(cases), BATCH):
        run_batch(kiln, cases[start:start + BATCH], results)
    connection.send(("done", (results, complete)))


class Child:
    """Ops in a process of their own, forked after the imports: a crash takes nothing with it."""

    def __init__(self, kiln, ops, limit, seed):
        self.ops = ops
        self.connection, other = multiprocessing.connection.Pipe(duplex=False)
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                with open(os.devnull, "w") as quiet:
                    if not os.environ.get("KILN_OPINFO_VERBOSE"):
                        os.dup2(quiet.fileno(), 1)
                        os.dup2(quiet.fileno(), 2)
                child_main(kiln, ops, limit, seed, other)
                status = 0
            except BaseException:
                other.send(("failed", traceback.format_exc()))
            os._exit(status)
        other.close()

    def receive(self):
        """The results; a string if the child failed; None if there is nothing yet."""
        try:
            kind, value = self.connection.recv()
        except EOFError:
            _, status = os.waitpid(self.pid, 0)
            return f"ended with status {status}"
        if kind == "progress":
            return None
        os.waitpid(self.pid, 0)
        return value


def run_all(kiln, ops, limit, seed, workers, record):
    """[stage, reason] by entry and sample, written to the file `record`, if any, as they come; and the
    names of entries of which every sample was run."""
    results, complete = {}, set()
    size = max(1, BATCH // limit)
    queue = [ops[i:i + size] for i in range(0, len(ops), size)]
    running = []
    while queue or running:
        while queue and len(running) < workers:
            running.append(Child(kiln, queue.pop(0), limit, seed))
        ready = multiprocessing.connection.wait([child.connection for child in running], timeout=5)
        for child in [child for child in running if child.connection in ready]:
            value = child.receive()
            if value is None:
                continue
            running.remove(child)
            if isinstance(value, tuple):
                results.update(value[0])
                complete.update(value[1])
            elif len(child.ops) == 1:
                results[entry_name(child.ops[0]) + "#0"] = ["crash", first_line(value)]
            else:
                queue += [[op] for op in child.ops]
        if ready and record:
            Path(record).write_text(json.dumps(results, indent=1))
        if sys.stderr.isatty():
            print(f"\r{len(results)} samples", end="", file=sys.stderr, flush=True)
    return results, complete


def read_refusals():
    lines = [line for line in REFUSALS.read_text().splitlines() if line and not line.startswith("#")]
    return {line.split(None, 1)[0]: line.split(None, 1)[1] for line in lines}


def write_refusals(refusals):
    comments = [line for line in REFUSALS.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name:48} {reason}" for name, reason in sorted(refusals.items())]
    REFUSALS.write_text("\n".join(comments + lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kiln")
    parser.add_argument("--slice", type=int, default=1, help="every N-th entry only")
    parser.add_argument("--samples", type=int, default=6, help="samples of an entry, drawn from those it has")
    parser.add_argument("--seed", type=int, help="what draws them; another one in each run if not given")
    parser.add_argument("--composite", action="store_true", help="composite operators, on poisoned memory")
    parser.add_argument("--only", nargs="*", help="these entries only")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help="write refusals.txt anew")
    parser.add_argument("--json", help="write every result there")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed

    known = read_refusals()
    entries = [op for op in op_db if torch.float32 in op.dtypes]
    if arguments.composite:
        names = composite_names()
        entries = [op for op in entries if is_composite(op, names)]
        Poison.trace, Poison.run = 0x35, 0xca
    chosen = ([op for op in entries if entry_name(op) in arguments.only] if arguments.only
              else entries[::arguments.slice])
    if arguments.slice > 1:
        chosen = [op for op in chosen if entry_name(op) not in known]
    # The known ones by themselves: they would take their batches apart.
    chosen.sort(key=lambda op: entry_name(op) in known)
    start = time.monotonic()
    print(f"seed {seed}", flush=True)
    results, complete = run_all(arguments.kiln, chosen, arguments.samples, seed, arguments.workers,
                                arguments.json)

    refused, wrong = {}, {}
    for case, (stage, reason) in results.items():
        name = case.rsplit("#", 1)[0]
        if stage in ("wrong", "crash"):
            wrong[case] = f"{stage}: {reason}"
        elif stage != "ok":
            refused.setdefault(name, f"{stage}: {reason}")
    new = {name: reason for name, reason in refused.items() if name not in known}
    mended = [name for name in known if name in complete and name not in refused]
    print(f"{len(chosen)} entries, {len(results)} samples in {time.monotonic() - start:.0f} s, seed {seed}: "
          f"{len(refused)} entries refused, {len(wrong)} samples wrong")
    for case, what in sorted(wrong.items()):
        print(f"WRONG    {case}: {what}")
    if arguments.write:
        unseen = {name: reason for name, reason in known.items() if name not in complete}
        write_refusals({**unseen, **refused})
        return 1 if wrong else 0
    for name, reason in sorted(new.items()):
        print(f"REFUSED  {name}: {reason}")
    for name in mended:
        print(f"WORKS    {name}: take it out of refusals.txt")
    return 1 if wrong or new or mended else 0


if __name__ == "__main__":
    sys.exit(main())

"""Entries in processes of their own, forked after the imports: a crash takes nothing with it."""

import json
import multiprocessing.connection
import os
import sys
import time
import traceback
from pathlib import Path

import torch

import forward
import gradients
from samples import Case, Refusal, drawn, entry_name, short
from stages import first_line


def batch_of(plan):
    """How many cases make a program. Each size that is free is searched for its range with the whole of it."""
    return 4 if plan.free_sizes else 24


def cases_of(op, plan, results, requires_grad):
    """Cases of an entry that run in eager mode, and whether they are all it has; where one does not, why."""
    limit = plan.gradients if requires_grad else plan.samples
    try:
        samples, complete = drawn(op, plan.dtypes, limit, plan.seed, requires_grad)
    except Exception as error:
        results[entry_name(op) + "#0"] = ["eager", first_line(error)]
        return [], False
    cases = []
    for sample in samples:
        name = f"{entry_name(op)}/{short(sample[0])}#{sample[1]}"
        try:
            case = Case(op, *sample)
            if requires_grad:
                cases += [case] if gradients.can_train(case) else []
            else:
                case(*case.fresh_inputs())
                case(*case.fresh_inputs(other=True))
                cases.append(case)
        except Refusal as refusal:
            results[name] = [refusal.stage, refusal.reason]
        except Exception as error:
            results[name] = ["eager", first_line(error)]
    return cases, complete


def child_main(plan, ops, connection):
    torch.set_num_threads(1)
    results, cases, complete = {}, [], []
    for op in ops:
        made, is_complete = cases_of(op, plan, results, requires_grad=False)
        cases += made
        complete += [entry_name(op)] if made and is_complete else []
    batch = batch_of(plan)
    for start in range(0, len(cases), batch):
        forward.run_batch(plan.kiln, cases[start:start + batch], results)
    if plan.gradients:
        cases = [case for op in ops if op.supports_autograd
                 for case in cases_of(op, plan, results, requires_grad=True)[0]]
        for start in range(0, len(cases), batch):
            part = cases[start:start + batch]
            try:
                gradients.run_batch(plan.gradients_program, part, results)
            except Exception:
                said = traceback.format_exc().strip().splitlines()[-1]
                results.update({f"{case} gradient": ["crash", said] for case in part})
    connection.send(("done", (results, complete)))


class Child:
    """A process for some entries."""

    def __init__(self, plan, ops):
        self.ops = ops
        self.connection, other = multiprocessing.connection.Pipe(duplex=False)
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                with open(os.devnull, "w") as quiet:
                    if not os.environ.get("KILN_OPINFO_VERBOSE"):
                        os.dup2(quiet.fileno(), 1)
                        os.dup2(quiet.fileno(), 2)
                child_main(plan, ops, other)
                status = 0
            except BaseException:
                other.send(("failed", traceback.format_exc().strip().splitlines()[-1]))
            os._exit(status)
        other.close()

    def receive(self):
        """The results; a string if the child failed."""
        try:
            _, value = self.connection.recv()
        except EOFError:
            _, status = os.waitpid(self.pid, 0)
            return f"ended with status {status}"
        os.waitpid(self.pid, 0)
        return value


class Record:
    """Results as they come, in a file if there is one, from which a run goes on that was stopped."""

    def __init__(self, file, seed):
        self.file = Path(file) if file else None
        self.results, self.complete, self.done = {}, set(), set()
        if self.file and self.file.exists():
            kept = json.loads(self.file.read_text())
            if kept["seed"] != seed:
                raise SystemExit(f"{file} is of seed {kept['seed']}, not {seed}")
            self.results, self.complete, self.done = kept["results"], set(kept["complete"]), set(kept["done"])
        self.seed = seed

    def add(self, ops, results, complete):
        self.results.update(results)
        self.complete.update(complete)
        self.done.update(entry_name(op) for op in ops)
        if self.file:
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps({"seed": self.seed, "results": self.results, "complete": sorted(self.complete),
                                        "done": sorted(self.done)}, indent=1))
            part.rename(self.file)


def run_all(plan, ops, workers, record):
    """Runs the entries that `record` does not have."""
    ops = [op for op in ops if entry_name(op) not in record.done]
    size = max(1, batch_of(plan) // plan.samples)
    queue = [ops[i:i + size] for i in range(0, len(ops), size)]
    running, start, total = [], time.monotonic(), len(ops)
    while queue or running:
        while queue and len(running) < workers:
            running.append(Child(plan, queue.pop(0)))
        ready = multiprocessing.connection.wait([child.connection for child in running], timeout=5)
        for child in [child for child in running if child.connection in ready]:
            value = child.receive()
            running.remove(child)
            if isinstance(value, tuple):
                record.add(child.ops, *value)
            elif len(child.ops) == 1:
                record.add(child.ops, {entry_name(child.ops[0]) + "#0": ["crash", first_line(value)]}, [])
            else:
                queue += [[op] for op in child.ops]
        left = sum(len(ops) for ops in queue) + sum(len(child.ops) for child in running)
        if sys.stderr.isatty():
            print(f"\r{total - left} of {total} entries, {len(record.results)} samples, "
                  f"{time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)

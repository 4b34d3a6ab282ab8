#!/usr/bin/env python3
"""Runs PyTorch's own operator database through Kiln, and compares with eager.

For each entry of op_db, samples are drawn that cover types and values of arguments, and pairs of them. They are
exported with torch.export, compiled, loaded with aoti_load_package and run on the data of the trace and, from the
cache, on other data (forward.py). With --gradients or --all they are also training steps of kiln::compile
(gradients.py). Several samples make one program.

What cannot be compiled is named with its reasons in refusals.txt, which may only shrink: a new reason fails, and so
does an entry of the list of which every sample works. A wrong value always fails.

Which samples of an entry are drawn depends on the seed and its name alone, so that a failure comes again with the seed
that was printed, also by itself: --seed N --only NAME.

With --free-sizes every size of an archive is free (Dim.AUTO), and the other data has other sizes where the archive and
eager allow some (other_sizes.py). What PyTorch cannot export so is only counted. What is refused beyond refusals.txt is
in refusals_of_free_sizes.txt.

With --composite only operators that libtorch makes of others are run, and memory is poisoned: what malloc gives out
holds one pattern while a program is traced and another one while it runs. A composite operator that fills memory
without going through the dispatcher would be recorded without what it computes.

usage: run.py KILN PROGRAM [--all] [--composite] [--free-sizes] [--slice N] [--samples N] [--seed N] [--only NAME...]
              [--shard I/N] [--record FILE] [--write]
"""

import argparse
import os
import random
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402: it counts its threads when it is imported

import refusals  # noqa: E402
from forward import Poison  # noqa: E402
from other_sizes import KEPT, RESIZED, FreeSizes  # noqa: E402
from samples import DTYPES, SAME_DATA, composite_names, entries, entry_name, is_composite, short  # noqa: E402
from workers import Record, run_all  # noqa: E402


def part_of(text):
    """"2/8" as numbers."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a part I/N, with I from 1 to N")
    return int(part), int(parts)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", help="the tool")
    parser.add_argument("gradients_program", help="kiln-opinfo-gradients")
    parser.add_argument("--all", action="store_true", help="samples until pairs are covered, and gradients")
    parser.add_argument("--slice", type=int, default=1, help="every N-th entry only")
    parser.add_argument("--shard", type=part_of, default=(1, 1), metavar="I/N", help="I/N: of N parts of the entries, the I-th")
    parser.add_argument("--samples", type=int, default=6, help="samples of an entry at most (40 with --all)")
    parser.add_argument("--gradients", type=int, default=0, help="and as many that are differentiated (12 with --all)")
    parser.add_argument("--dtypes", nargs="*", choices=[short(dtype) for dtype in DTYPES], help="in these types only")
    parser.add_argument("--seed", type=int, help="what draws them; another one in each run if not given")
    parser.add_argument("--composite", action="store_true", help="composite operators, on poisoned memory")
    parser.add_argument("--free-sizes", action="store_true", help="archives whose sizes are free, at other sizes")
    parser.add_argument("--only", nargs="*", help="these entries only")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help="write refusals.txt anew")
    parser.add_argument("--record", help="write every result there; a run that finds it goes on from it")
    plan = parser.parse_args()
    for program in (plan.kiln, plan.gradients_program):
        if not os.access(program, os.X_OK):
            parser.error(f"there is no program {program}")
    if plan.free_sizes and (plan.composite or plan.gradients):
        parser.error("--free-sizes is for archives, on memory as it is")
    if plan.all:
        plan.samples, plan.gradients = 40, 0 if plan.free_sizes else 12
    plan.seed = random.randrange(10**6) if plan.seed is None else plan.seed
    FreeSizes.seed = plan.seed if plan.free_sizes else None
    plan.dtypes = [dtype for dtype in DTYPES if not plan.dtypes or short(dtype) in plan.dtypes]
    return plan


def chosen_entries(plan, known):
    found = entries()
    if plan.composite:
        names = composite_names()
        found = [op for op in found if is_composite(op, names)]
        Poison.trace, Poison.run = 0x35, 0xca
    part, parts = plan.shard
    if plan.only:
        unknown = set(plan.only) - {entry_name(op) for op in found}
        if unknown:
            raise SystemExit(f"there is no entry {', '.join(sorted(unknown))}")
        return [op for op in found if entry_name(op) in plan.only]
    found = found[part - 1::parts][::plan.slice]
    if plan.slice > 1:
        found = [op for op in found if entry_name(op) not in known]
    # The known ones by themselves: they would take their batches apart.
    return sorted(found, key=lambda op: entry_name(op) in known)


def table(results):
    """Samples by type: how many, and how many of them were refused or wrong."""
    counts = {}
    for case, (stage, _) in results.items():
        kind = "gradient" if case.endswith(" gradient") else "forward"
        dtype = case.split("/")[-1].split("#")[0] if "/" in case else "-"
        row = counts.setdefault((dtype, kind), [0, 0, 0])
        row[0] += 1
        row[1] += stage not in ("ok", "wrong", "crash")
        row[2] += stage in ("wrong", "crash")
    order = [short(dtype) for dtype in DTYPES] + ["-"]
    print(f"{'type':12}{'forward':>9}{'refused':>9}{'wrong':>7}{'gradient':>10}{'refused':>9}{'wrong':>7}")
    for dtype in order:
        rows = [counts.get((dtype, kind), [0, 0, 0]) for kind in ("forward", "gradient")]
        if any(row[0] for row in rows):
            print(f"{dtype:12}{rows[0][0]:9}{rows[0][1]:9}{rows[0][2]:7}{rows[1][0]:10}{rows[1][1]:9}{rows[1][2]:7}")


def sorted_out(plan, record):
    """Reasons by entry, and wrong cases."""
    refused, wrong = {}, {}
    for case, (stage, reason) in record.results.items():
        name = case.split("#")[0].split("/")[0]
        if stage in ("wrong", "crash"):
            wrong[case] = f"{stage}: {reason}"
        elif stage != "ok" and not (plan.free_sizes and stage == "export"):
            refused.setdefault(name, set()).add(f"{stage}: {reason}")
    return refused, wrong


def main():
    plan = options()
    always = refusals.read()
    file = refusals.OF_FREE_SIZES if plan.free_sizes else refusals.FILE
    known = refusals.read(file)
    chosen = chosen_entries(plan, always)
    start = time.monotonic()
    print(f"seed {plan.seed}, libtorch {torch.__version__}", flush=True)
    record = Record(plan.record, plan.seed)
    run_all(plan, chosen, plan.workers, record)

    refused, wrong = sorted_out(plan, record)
    new = [(name, reason) for name, reasons in refused.items() for reason in reasons
           if not refusals.has(known, name, reason) and not refusals.has(always, name, reason)]
    mended = [name for name in known if name in record.complete and name not in refused]
    table(record.results)
    remarks = ", ".join(f"{list(record.results.values()).count(['ok', remark])} {remark}"
                        for remark in ((RESIZED, KEPT) if plan.free_sizes else (SAME_DATA,)))
    print(f"{len(chosen)} entries, {len(record.results)} samples in {time.monotonic() - start:.0f} s, seed {plan.seed}: "
          f"{len(refused)} entries refused, {len(wrong)} samples wrong, {remarks}")
    for case, what in sorted(wrong.items()):
        print(f"WRONG    {case}: {what}")
    if plan.write:
        unseen = {name: reasons for name, reasons in known.items() if name not in mended}
        for name, reason in new:
            unseen.setdefault(name, []).append(reason)
        refusals.write(unseen, file)
        return 1 if wrong else 0
    for name, reason in sorted(new):
        print(f"REFUSED  {name}: {reason}")
    for name in mended:
        print(f"WORKS    {name}: take it out of {file.name}")
    return 1 if wrong or new or mended else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs an archive with Python's torch.export.load at several sizes and compares.

usage: check_sizes.py ARCHIVE CALLS INPUTS

CALLS is a list of tensors: for each call its INPUTS inputs, and what the program returns. Prints the
ranges of the program's symbols, sorted. Fails if a result differs, or a size out of range is taken.
"""

import sys

import torch
from torch.utils import _pytree as pytree


def main():
    archive, calls_file, inputs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    program = torch.export.load(archive)
    module = program.module()
    ranges = sorted((int(values.lower), int(values.upper)) for values in program.range_constraints.values())
    print(" ".join(str(list(ends)) for ends in ranges))
    tensors = torch.load(calls_file, weights_only=False)
    results = len(pytree.tree_leaves(module(*tensors[:inputs])))
    calls = [tensors[i:i + inputs + results] for i in range(0, len(tensors), inputs + results)]
    for call in calls:
        for output, wanted in zip(pytree.tree_leaves(module(*call[:inputs])), call[inputs:], strict=True):
            torch.testing.assert_close(output, wanted, rtol=1e-5, atol=1e-6)
    print(f"{len(calls)} calls equal")


if __name__ == "__main__":
    main()

"""Runs an archive with Python's torch.export.load and compares.

usage: check_archive.py ARCHIVE EXPECTED

EXPECTED is a list of tensors: what the program returns on the archive's sample inputs, then (if it
has any) its updated buffers in the order of the signature. Fails if they differ.
"""

import sys

import torch
from torch.utils import _pytree as pytree


def main():
    archive, expected_file = sys.argv[1:]
    program = torch.export.load(archive)
    expected = torch.load(expected_file, weights_only=False)
    arguments, keywords = program.example_inputs
    module = program.module()
    outputs = [t for t in pytree.tree_leaves(module(*arguments, **keywords)) if isinstance(t, torch.Tensor)]
    buffers = dict(module.named_buffers())
    outputs += [buffers[name] for name in program.graph_signature.buffers_to_mutate.values()]
    assert len(outputs) == len(expected), f"{len(outputs)} tensors, expected {len(expected)}"
    for output, wanted in zip(outputs, expected):
        torch.testing.assert_close(output, wanted, rtol=1e-5, atol=1e-6)
    print(f"{len(outputs)} tensors equal")


if __name__ == "__main__":
    main()

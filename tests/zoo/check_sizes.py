"""Runs an archive with Python's torch.export.load at several sizes and compares.

usage: check_sizes.py ARCHIVE CALLS INPUTS

CALLS is a list of tensors: for each call its INPUTS inputs, and what the program returns. Prints the
ranges of the program's symbols, sorted. Fails if a result differs, or a size beyond the end of a range is
taken.
"""

import sys

import sympy
import torch
from torch.utils import _pytree as pytree

LARGEST = 1 << 16  # Ends of ranges that are larger are not tried.


def expression(size):
    return size.node.expr if isinstance(size, torch.SymInt) else None


def resized(tensor, sizes):
    """Its rows, repeated, so that indices stay valid."""
    for dimension, size in enumerate(sizes):
        tensor = tensor.index_select(dimension, torch.arange(size) % tensor.size(dimension))
    return tensor


def calls_out_of_range(program, inputs):
    """For each symbol whose range ends: its name, and the inputs with it beyond the end."""
    nodes = {node.name: node for node in program.graph.nodes}
    shapes = [[expression(size) for size in nodes[name].meta["val"].shape]
              for name in program.graph_signature.user_inputs]
    values = {}
    for shape, tensor in zip(shapes, inputs, strict=True):
        for size, actual in zip(shape, tensor.shape):
            if size is not None:
                (symbol,) = size.free_symbols
                values[symbol] = sympy.solve(size - actual, symbol)[0]
    for symbol in values:
        end = program.range_constraints[symbol].upper
        if end <= LARGEST:
            beyond = values | {symbol: int(end) + 1}
            yield symbol, [resized(tensor, [tensor.size(d) if size is None else int(size.subs(beyond))
                                            for d, size in enumerate(shape)])
                           for shape, tensor in zip(shapes, inputs)]


def check_refused(module, symbol, inputs):
    sizes = ", ".join(str(list(tensor.shape)) for tensor in inputs)
    try:
        module(*inputs)
    except (AssertionError, RuntimeError) as error:
        if "Expected input" in str(error) or "Guard failed" in str(error):
            return
        raise
    raise AssertionError(f"'{symbol}' beyond its range was taken: {sizes}")


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
    refused = 0
    for symbol, beyond in calls_out_of_range(program, calls[0][:inputs]):
        check_refused(module, symbol, beyond)
        refused += 1
    print(f"{len(calls)} calls equal, {refused} out of range refused")


if __name__ == "__main__":
    main()

"""Cases whose sizes vary: exported with every size free, and run at sizes that the trace has not seen."""

import random
import re

import torch
import torch.export
from torch.export import Dim

# Said of a case that also ran at other sizes, and of one whose package refused them by name.
RESIZED = "at other sizes"
KEPT = "refused other sizes"
ATTEMPTS = 3


class FreeSizes:
    """Whether sizes vary: the seed that draws the others, or None."""

    seed = None


def free_sizes(inputs):
    """`dynamic_shapes` of torch.export for a function of `*inputs`."""
    return (tuple([Dim.AUTO] * tensor.dim() for tensor in inputs),)


def shapes_of(program):
    """Of each input the sizes that the trace gave it: numbers, and expressions of symbols."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [[size.node.expr if isinstance(size, torch.SymInt) else size for size in nodes[name].meta["val"].shape]
            for name in program.graph_signature.user_inputs]


def symbols_of(shapes):
    return {symbol for shape in shapes for size in shape if not isinstance(size, int) for symbol in size.free_symbols}


def is_dense(tensor):
    """Whether its strides are those of its sizes in some order."""
    return tensor.layout == torch.strided and tensor.numel() > 0 and torch.ops.aten.is_non_overlapping_and_dense(tensor)


def resized(tensor, shape):
    """Of this shape, with the tensor's own rows repeated, so that indices stay valid; its dimensions lie as before."""
    order = sorted(range(tensor.dim()), key=lambda i: (-tensor.stride(i), i))
    found = tensor.detach()
    for dim, size in enumerate(shape):
        found = found.index_select(dim, torch.arange(size) % tensor.size(dim))
    back = sorted(range(tensor.dim()), key=order.__getitem__)
    return found.permute(order).contiguous().permute(back).requires_grad_(tensor.requires_grad)


def draw(symbols, old, ranges, numbers):
    """Another value for each symbol, mostly a larger one: fewer rows leave indices behind."""
    def other(symbol):
        values = [value for value in range(2, old[symbol] + 7) if ranges[symbol].lower <= value <= ranges[symbol].upper
                  and value != old[symbol] and (value > old[symbol] or numbers.random() < 0.2)]
        return numbers.choice(values or [old[symbol]])
    return {symbol: other(symbol) for symbol in symbols}


def resize(program, cases):
    """Gives each case inputs of other sizes as its other data, where the exported program allows some that eager takes."""
    shapes, old = shapes_of(program), {}
    for tensor, shape in zip((tensor for case in cases for tensor in case.inputs), shapes):
        old.update({size: n for size, n in zip(shape, tensor.shape) if getattr(size, "is_Symbol", False)})
    parts = []
    for case in cases:
        parts.append(shapes[:len(case.inputs)])
        del shapes[:len(case.inputs)]
    for case, part in zip(cases, parts):
        others = set().union(*(symbols_of(other) for other in parts if other is not part))
        # A symbol without a dimension of its own has a value that only follows from others.
        free = sorted((symbols_of(part) & old.keys()) - others, key=str)
        case.others, case.remark = case.inputs, ""
        if not free or not all(map(is_dense, case.inputs)):
            continue
        numbers = random.Random(f"{FreeSizes.seed} {case}")
        for _ in range(ATTEMPTS):
            values = old | draw(free, old, program.range_constraints, numbers)
            wanted = [[size if isinstance(size, int) else int(size.subs(values)) for size in shape] for shape in part]
            if all(tuple(shape) == tensor.shape for shape, tensor in zip(wanted, case.inputs)):
                continue
            try:
                found = [resized(tensor, shape) for tensor, shape in zip(case.inputs, wanted)]
                case(*[tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in found])
            except Exception:
                continue  # Eager does not take these sizes.
            case.others, case.remark = found, RESIZED
            break


def keeps_its_sizes(case, error):
    """Whether a package says that it takes fewer sizes than its archive, or that a guard of the archive does not hold."""
    said = r"input \d+ '\w+'.*(: expected sizes |must be )|the program was traced for sizes with '"
    if case.remark != RESIZED or not re.search(said, str(error)):
        return False
    case.remark = KEPT
    return True

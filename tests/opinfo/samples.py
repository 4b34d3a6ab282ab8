"""Samples of PyTorch's operator database: entries in a type, drawn by a seed."""

import copy
import itertools
import random
import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8,
          torch.bool, torch.complex64, torch.complex128)
WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.float16: torch.float64,
         torch.complex64: torch.complex128}
# Said of a case that was drawn twice and has the same values, or other metadata.
SAME_DATA = "on one kind of data"
# What these return is whatever was in memory.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
                 "resize_", "resize_as_"}

# Entries of random operators set the seed inside the operator, which no exported program does. Here
# it is set before a run, and draws come in the same order.
for module in list(sys.modules.values()):
    if hasattr(module, "wrapper_set_seed"):
        module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


class Refusal(Exception):
    """A program that cannot be made, compiled or run: the stage, and the reason."""

    def __init__(self, stage, reason):
        super().__init__(stage, reason)
        self.stage, self.reason = stage, reason


def entry_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def short(dtype):
    return str(dtype).removeprefix("torch.")


def composite_names():
    """Operators of libtorch with a kernel that only calls others, without namespace and overload."""
    return {name.removeprefix("aten::").split(".")[0] for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and
            torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")}


def is_composite(op, names):
    return not names.isdisjoint({op.name.replace(".", "_"), op.name.split(".")[-1], op.aten_name})


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def flattened(sample):
    return pytree.tree_flatten((sample.input, sample.args, sample.kwargs))


def is_same(a, b):
    """Whether two tensors of the same metadata have the same elements; of other layouts nobody knows."""
    return a is b or (a.layout == torch.strided and torch.equal(a, b))


def moved(tensor):
    """A copy at another offset of its storage, where its layout is strides alone."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
        return copy.deepcopy(tensor)
    offset = 6  # Even, as complex numbers of pairs want it, and no multiple of a vector.
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    storage = torch.zeros(offset + extent, dtype=tensor.dtype)
    storage[offset:] = tensor.detach().as_strided((extent,), (1,), tensor.storage_offset())
    return storage.as_strided(tensor.shape, tensor.stride(), offset).requires_grad_(tensor.requires_grad)


class Case:
    """One sample of one entry: a function of the tensors among its arguments, and data of two kinds for it."""

    def __init__(self, op, dtype, number, sample, other):
        self.op, self.dtype, self.entry, self.number = op, dtype, entry_name(op), number
        leaves, self.spec = flattened(sample)
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.inputs = [leaves[i].detach().requires_grad_(leaves[i].requires_grad) for i in self.places]
        self.others = self.other_data(other)
        self.remark = SAME_DATA if self.inputs and all(map(is_same, self.inputs, self.others)) else ""
        if op.name.startswith("as_strided") and any(
                tensor.untyped_storage().nbytes() > tensor.nbytes for tensor in self.inputs):
            raise Refusal("archive", "reads memory outside its input, which no archive keeps")

    def other_data(self, other):
        """The same sample, drawn again: inputs with the same metadata and other values; else the same ones."""
        leaves, spec = flattened(other)
        if spec != self.spec:
            return self.inputs
        found = [leaves[i] for i in self.places if isinstance(leaves[i], torch.Tensor)]
        rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        same = len(found) == len(self.inputs) and str(rest) == str(self.leaves) and all(
            (a.shape, a.dtype, a.layout) == (b.shape, b.dtype, b.layout) and
            (a.layout != torch.strided or a.stride() == b.stride()) for a, b in zip(found, self.inputs))
        return [t.detach().requires_grad_(t.requires_grad) for t in found] if same else self.inputs

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        value, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return tensors_of(self.op.op(value, *args, **kwargs))

    def fresh_inputs(self, other=False):
        # What as_strided finds depends on where its tensor begins.
        if other and not self.op.name.startswith("as_strided"):
            return [moved(tensor) for tensor in self.others]
        if other:
            return [copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad) for tensor in self.others]
        return [copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad) for tensor in self.inputs]

    def __str__(self):
        return f"{self.entry}/{short(self.dtype)}#{self.number}"


def features(sample):
    """What a sample has of each argument: values of plain ones, and how tensors look."""
    found = set()
    for path, leaf in pytree.tree_flatten_with_path((sample.input, sample.args, sample.kwargs))[0]:
        if isinstance(leaf, torch.Tensor):
            strides = leaf.layout == torch.strided and leaf.is_contiguous()
            found.add((str(path), leaf.dim(), leaf.numel() == 0, strides))
        else:
            found.add((str(path), f"{leaf:.3g}" if isinstance(leaf, float) else str(leaf)))
    return found


def covering(candidates, limit, random_numbers):
    """At most `limit` of `candidates`, sets of features, with as many pairs of them as can be: their numbers."""
    open_ones = list(range(len(candidates)))
    random_numbers.shuffle(open_ones)
    pairs = [set(itertools.combinations(sorted(map(str, one)), 2)) for one in candidates]
    seen, seen_values, chosen = set(), set(), []

    def gain(i):
        return len(pairs[i] - seen) + 10 * len(candidates[i] - seen_values)

    while open_ones and len(chosen) < limit:
        best = max(open_ones[:32], key=gain)
        if gain(best) == 0:
            del open_ones[:32]  # What was seen only grows.
            continue
        open_ones.remove(best)
        chosen.append(best)
        seen |= pairs[best]
        seen_values |= candidates[best]
    return chosen


def drawn(op, dtypes, limit, seed, requires_grad=False):
    """Samples of an entry, as `Case` takes them, and whether these are all it has.

    They cover values of its arguments and types, and as many pairs of them as `limit` allows.
    """
    supported = op.supported_backward_dtypes("cpu") if requires_grad else op.supported_dtypes("cpu")
    found = []
    for dtype in dtypes:
        if dtype not in supported:
            continue
        lists = []
        for data_seed in (0, 1):
            torch.manual_seed(data_seed)
            random.seed(data_seed)
            # Left to itself it sets the same seed before each sample.
            lists.append(list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad, set_seed=False)))
        others = lists[1] if len(lists[1]) == len(lists[0]) else lists[0]
        found += [(dtype, i, sample, others[i]) for i, sample in enumerate(lists[0])]
    sets = [features(sample) | {("dtype", short(dtype))} for dtype, _, sample, _ in found]
    chosen = covering(sets, limit, random.Random(f"{seed} {entry_name(op)} {requires_grad}"))
    return [found[i] for i in sorted(chosen)], len(chosen) == len(found)


def entries():
    return [op for op in op_db if any(dtype in op.supported_dtypes("cpu") for dtype in DTYPES)]

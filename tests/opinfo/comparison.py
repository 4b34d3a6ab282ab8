"""Whether results equal eager's."""

import torch

from samples import UNINITIALISED, WIDER

TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-2),
              torch.float16: (2e-3, 1e-3), torch.complex64: (1e-4, 1e-5), torch.complex128: (1e-7, 1e-7)}


def unlike(found, wanted, rtol=None):
    """In what two tensors differ; None if in nothing."""
    usual, atol = TOLERANCES.get(wanted.dtype, (0, 0))
    rtol = usual if rtol is None else rtol
    try:
        torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return (first_difference(found, wanted) + " ".join(str(error).split()))[:300]
    return None


def first_difference(found, wanted):
    """The first element that differs, in words."""
    if found.shape != wanted.shape or found.layout != torch.strided:
        return ""
    differs = (found != wanted) & ~(found.isnan() & wanted.isnan())
    if not differs.any():
        return ""
    place = tuple(differs.nonzero()[0].tolist())
    return f"{found[place].item()} instead of {wanted[place].item()} at {place}: "


def is_as_exact(found, wanted, reference, eps):
    """Whether `found` is about as near to what a wider type computes as eager is, but for rounding by `eps`."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype or reference.shape != wanted.shape:
        return False
    # A narrow type may overflow on the way to a number that it has. What is found instead was rounded several times.
    overflown = reference.isfinite() & ~wanted.isfinite()
    if unlike(found[overflown], reference.to(wanted.dtype)[overflown], 8 * torch.finfo(wanted.dtype).eps):
        return False
    finite = reference.isfinite() & wanted.isfinite()
    if unlike(found[~finite & ~overflown], wanted[~finite & ~overflown]):
        return False
    distance = (found.to(reference.dtype) - reference).abs()[finite]
    allowed = 2 * (wanted.to(reference.dtype) - reference).abs()[finite]
    rounding = eps * reference.abs()[finite]
    return distance.numel() == 0 or bool((distance <= allowed.max() + rounding).all())


def strides_of(tensor):
    """Of the dimensions that have more than one place; None where a tensor has no strides, or no elements."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return None
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


def difference(case, wanted, found, wider, returned=None):
    """What is wrong with the results of a case; None if nothing. `wider()` computes them in a wider type.

    The first `returned` ones (all of them if not given) have eager's strides: those of gradients are nobody's promise.
    """
    returned = len(wanted) if returned is None else returned
    if len(wanted) != len(found):
        return f"{len(found)} results instead of {len(wanted)}"
    for index, (one, other) in enumerate(zip(found, wanted)):
        if (one is None) != (other is None):
            return f"result {index}: {'missing' if one is None else 'is there'}"
        if one is None or (case.op.name in UNINITIALISED and one.shape == other.shape and one.dtype == other.dtype):
            continue
        what = unlike(one, other)
        # What is computed of an operand in a narrow type is a result in a wider one, no more exact for that.
        narrow = [torch.finfo(tensor.dtype).eps for tensor in case.inputs if tensor.dtype in WIDER]
        eps = torch.finfo(one.dtype).eps if one.dtype in WIDER else 8 * max(narrow, default=0)
        if what and one.dtype == other.dtype and eps:
            try:
                references = wider()
            except Exception:
                references = None
            if references and references[index] is not None and is_as_exact(one, other, references[index], eps):
                what = None
        if not what and index < returned and strides_of(one) != strides_of(other):
            what = f"strides {strides_of(one)} instead of {strides_of(other)}"
        if what:
            return f"result {index}: {what}"
    return None


def widened(tensor):
    """In the type that checks a narrower one."""
    wide = WIDER.get(tensor.dtype, tensor.dtype)
    return tensor.detach().to(wide).requires_grad_(tensor.requires_grad)

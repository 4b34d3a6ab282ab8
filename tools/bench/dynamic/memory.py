"""How large the arena of a compiled model is, from the plan that the compiler leaves beside its source."""

import json
import re


def symbols_of(sizes, shapes):
    """The values of symbols whose inputs have these shapes; `sizes` is KILN_SIZES of a package."""
    found = {}
    for declared, shape in zip(json.loads(sizes)["inputs"], shapes, strict=True):
        for size, value in zip(declared["sizes"], shape, strict=True):
            # A symbol, or a multiple of one.
            if isinstance(size, str) and (match := re.fullmatch(r"(?:(\d+)\s*\*\s*)?(\w+)", size)):
                found[match[2]] = value // int(match[1] or 1)
    return found


def evaluated(number, symbols):
    """A number of the plan, which may be an expression."""
    if isinstance(number, int):
        return number
    functions = {"Max": max, "Min": min, "max": max, "min": min, "Mod": lambda a, b: a % b, "mod": lambda a, b: a % b,
                 "ceil_div": lambda a, b: -(-a // b)}
    return eval(number, {"__builtins__": {}}, functions | symbols)  # noqa: S307: the compiler wrote it


def arena_bytes(plan, symbols):
    """The most bytes that are in use in any step: what the arena is but for a few gaps."""
    changes = {}
    for buffer in json.loads(plan)["buffers"]:
        if buffer["memory"] == "arena" and buffer["used"]:
            rounded = -(-max(0, evaluated(buffer["bytes"], symbols)) // 64) * 64
            changes[buffer["first"]] = changes.get(buffer["first"], 0) + rounded
            changes[buffer["last"] + 1] = changes.get(buffer["last"] + 1, 0) - rounded
    most = alive = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most

"""The list of what cannot be compiled: entries, and each reason of theirs."""

import re
from pathlib import Path

FILE = Path(__file__).with_name("refusals.txt")
# What only programs whose sizes vary are refused for.
OF_FREE_SIZES = Path(__file__).with_name("refusals_of_free_sizes.txt")


def plain(reason):
    """Without what differs from sample to sample: numbers, and of PyTorch's own reasons the sizes and types."""
    if reason.startswith("export: "):
        reason = re.split(r"[({%]", reason)[0]
    return re.sub(r"\d+", "#", reason)


def read(file=FILE):
    """Reasons by entry."""
    found = {}
    for line in file.read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(None, 1)
            found.setdefault(name, []).append(reason)
    return found


def write(refusals, file=FILE):
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name:48} {reason}" for name in sorted(refusals) for reason in sorted(refusals[name])]
    file.write_text("\n".join(comments + lines) + "\n")


def has(known, name, reason):
    return any(plain(reason) == plain(one) for one in known.get(name, []))

"""Whether a command printed what a document shows."""

import math
import re

# What depends on the machine, the moment or random weights. A count is not zero.
NUMBER = r"\d+(?:\.\d+)?"
UNSTABLE = [re.compile(pattern) for pattern in (
    r"\bkiln_[0-9a-f]{16}\b",  # a kernel's name
    r"(?<=checksum )[0-9a-f]+",
    r"(?<=sum )-?" + NUMBER,
    NUMBER + r"(?= (?:ns|us|ms|s)\b)",
    r"(?<=: )" + NUMBER + r" [kM]B(?=,)",  # a file with code in it
    r"\b[1-9]\d*(?= (?:answers|calls/s)\b)",
    r"(?<=\()[1-9]\d*(?= calls\))",
)]
FRACTION = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def comparable(text):
    """The text without its fractions, and these."""
    for pattern in UNSTABLE:
        text = pattern.sub("#", text)
    fractions = [float(number) for number in FRACTION.findall(text)]
    return re.sub(r"[ \t]+", " ", FRACTION.sub("#", text)).strip(), fractions


def alike(first, second):
    """Whether two fractions may be one number: torch draws others on other machines; tiny ones come from rounding."""
    return math.isclose(first, second, rel_tol=0.1, abs_tol=1e-5)


def same(printed, shown):
    printed, values = comparable(printed)
    shown, expected = comparable(shown)
    return printed == shown and all(map(alike, values, expected))

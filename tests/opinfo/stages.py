"""Where a case got to, in words that are the same from run to run."""

import re

TIMEOUT = 300


def first_line(error):
    text = str(error).strip()
    line = next((line for line in text.splitlines() if line.strip()), "")
    return (re.sub(r"0x[0-9a-f]+|/\S*/", "", line) or type(error).__name__)[:160]


def divide(refusal, cases, results, name_of, again):
    """Of several cases that are refused as a whole, each half is tried by itself; one has its reason."""
    if len(cases) == 1:
        results[name_of(cases[0])] = [refusal.stage, refusal.reason]
        return
    middle = len(cases) // 2
    again(cases[:middle])
    again(cases[middle:])


def said_by(stderr):
    """The last error among the lines of a program of Kiln."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("kiln: ")]
    if said and "failed in the TorchScript interpreter" in said[-1]:
        return first_line(lines[-1])
    return first_line(said[-1].removeprefix("kiln: ") if said else stderr)

#!/usr/bin/env python3
"""Fails if the same run of lines stands in two places of libs/ and tools/.

Lines are compared without indentation; blank lines, comments, includes and lines that only close
something do not count. Tests may repeat themselves: there a reader wants the whole story in one place.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = 12
INSIGNIFICANT = re.compile(r"^(//.*|#.*|[{}()\];,\s]*|namespace .*|\} *//.*|using .*)$")


def significant_lines(path: Path) -> list[tuple[int, str]]:
    numbered = enumerate(path.read_text().splitlines(), 1)
    return [(n, line.strip()) for n, line in numbered if not INSIGNIFICANT.match(line.strip())]


def main() -> int:
    listing = subprocess.run(
        ["git", "ls-files", "libs/*.cpp", "libs/*.hpp", "tools/*.cpp", "tools/*.hpp"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    first_seen: dict[tuple[str, ...], tuple[str, int]] = {}
    found: set[tuple[str, str]] = set()
    for name in listing:
        if "/tests/" in name or not (ROOT / name).is_file():
            continue
        lines = significant_lines(ROOT / name)
        for start in range(len(lines) - RUN + 1):
            window = tuple(text for _, text in lines[start : start + RUN])
            number = lines[start][0]
            other, other_number = first_seen.setdefault(window, (name, number))
            if (other, other_number) != (name, number) and (other, name) not in found:
                found.add((other, name))
                print(f"{name}:{number}: the same {RUN} lines as {other}:{other_number}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

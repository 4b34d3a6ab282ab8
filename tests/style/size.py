#!/usr/bin/env python3
"""Prints lines per library and the ten longest files. A report, not a gate.

A long file asks whether it holds more than one idea.
"""

import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = (".cpp", ".hpp", ".h", ".cu", ".py", ".cmake")


def count_lines(path: Path) -> int:
    return sum(1 for line in path.read_text().splitlines() if line.strip())


def part_of(name: str) -> tuple[str, str]:
    """The component a file belongs to, and whether it is product or test."""
    pieces = name.split("/")
    component = "/".join(pieces[:2]) if pieces[0] in ("libs", "tools") and len(pieces) > 2 else pieces[0]
    return component, "tests" if "tests" in pieces else "code"


def main() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [name for name in listing.stdout.split("\n") if name.endswith(CODE) and (ROOT / name).is_file()]
    lines = {name: count_lines(ROOT / name) for name in names}
    totals: dict[str, dict[str, int]] = defaultdict(lambda: {"code": 0, "tests": 0})
    for name, count in lines.items():
        component, kind = part_of(name)
        totals[component][kind] += count

    print(f"{'':28}{'code':>8}{'tests':>8}   lines that are not blank")
    for component in sorted(totals):
        print(f"{component:28}{totals[component]['code']:8}{totals[component]['tests']:8}")
    print(f"{'all':28}{sum(t['code'] for t in totals.values()):8}{sum(t['tests'] for t in totals.values()):8}")
    print("the longest files")
    for name in sorted(lines, key=lines.get, reverse=True)[:10]:
        print(f"{lines[name]:8}  {name}")


if __name__ == "__main__":
    main()

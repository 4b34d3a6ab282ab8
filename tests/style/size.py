#!/usr/bin/env python3
"""Prints lines per library and the ten longest files, and fails where a limit is broken.

A long file asks whether it holds more than one idea. The limits count blank lines, too.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = (".cpp", ".hpp", ".h", ".cu", ".py", ".cmake")

# By library: lines of a file, lines of a function.
LIMITS = {"libs/codegen": (400, 80)}

# What braces and parentheses mean nothing in: comments, literals, directives.
LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'"""
    r"""|^\s*\#(?:[^\n]*\\\n)*[^\n]*""", re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum)\b(?!.*\))", re.DOTALL)


def functions(text: str) -> list[tuple[int, int]]:
    """The first line of every function that C++ `text` defines, and how many it has."""
    text = LITERAL.sub(lambda literal: "\n" * literal.group().count("\n"), text)
    found, open_braces, begin = [], [], 0
    for brace in re.finditer(r"[{};]", text):
        if brace.group() == "{":
            head = text[begin:brace.start()].lstrip()
            is_scope = bool(SCOPE.match(head)) or (head.startswith("extern") and "(" not in head)
            open_braces.append((is_scope, head, brace.start() - len(head)))
        elif brace.group() == "}" and open_braces:
            is_scope, head, start = open_braces.pop()
            is_function = not is_scope and "(" in head and "=" not in head.split("(")[0]
            if is_function and all(outer[0] for outer in open_braces):
                first, last = (text.count("\n", 0, at) + 1 for at in (start, brace.end()))
                found.append((first, last - first + 1))
        begin = brace.end()
    return found


def too_long(name: str, text: str) -> list[str]:
    """What breaks a limit in the file `name`."""
    limits = next((limits for library, limits in LIMITS.items() if name.startswith(library + "/")), None)
    if limits is None or not name.endswith((".cpp", ".hpp", ".h", ".cu")):
        return []
    of_file, of_function = limits
    lines = text.count("\n")
    found = [f"{name}: {lines} lines, the limit is {of_file}"] if lines > of_file else []
    return found + [f"{name}:{first}: a function of {count} lines, the limit is {of_function}"
                    for first, count in functions(text) if count > of_function]


def count_lines(path: Path) -> int:
    return sum(1 for line in path.read_text().splitlines() if line.strip())


def part_of(name: str) -> tuple[str, str]:
    """The component a file belongs to, and whether it is product or test."""
    pieces = name.split("/")
    component = "/".join(pieces[:2]) if pieces[0] in ("libs", "tools") and len(pieces) > 2 else pieces[0]
    return component, "tests" if "tests" in pieces else "code"


def main() -> None:
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
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
    broken = [line for name in names for line in too_long(name, (ROOT / name).read_text())]
    for line in broken:
        print(line, file=sys.stderr)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

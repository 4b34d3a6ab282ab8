"""A public header as Doxygen reads it: header_filter.py HEADER prints it.

The comment at the top of a header says what the file is for, in plain `//`; here it becomes the file's documentation.
The text keeps its lines.
"""

import re
import sys
from pathlib import Path

# Doxygen stumbles over a specialisation that is written outside its namespace.
SPECIALISATION = re.compile(r"^struct std::hash<.*\{", re.M)


def documented(text: str, name: str) -> str:
    """The text of the header `name` with its first comment as the documentation of the file."""
    text = SPECIALISATION.sub("struct hash_specialization {", text)
    if text.startswith("/*"):
        return text.replace("/*", "/**", 1).replace(" */\n\n", f"\n * @file {name} */\n", 1)
    lines = text.split("\n")
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    for i in range(end):
        words = lines[i].removeprefix("//")
        # What is indented is code, for which Markdown wants four spaces more.
        lines[i] = "///" + ("  " if words.startswith("  ") else "") + words
    return "\n".join([*lines[:end], f"/// @file {name}", *lines[end + 1 :]])


def main() -> None:
    header = Path(sys.argv[1])
    print(documented(header.read_text(), header.as_posix().partition("/include/")[2]), end="")


if __name__ == "__main__":
    main()

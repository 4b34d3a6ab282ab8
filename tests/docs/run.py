"""Runs what the documents show.

    run.py BUILD            fails where a document shows something else than what is printed
    run.py BUILD --write    puts what is printed into the documents

A block of kind `console` holds commands ("$ kiln doctor") and what they print. The commands of a document run one after
another in an empty folder, with the tools and the examples in the PATH. The folder's name, times and what else
comparison.py names may differ, fractions by a tenth, and whole numbers not. A block of kind `cpp` behind a line
`<!-- from FILE -->` must stand in that file.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from comparison import same

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
WRITE = "--write" in sys.argv[2:]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)
QUOTATION = re.compile(r"^<!-- from (\S+) -->\n```cpp\n(.*?)^```$", re.S | re.M)


def environment(folder):
    path = os.pathsep.join([f"{BUILD}/bin", f"{BUILD}/bin/examples", f"{ROOT}/.venv/bin", os.environ["PATH"]])
    return {**os.environ, "PATH": path, "KILN_CACHE_DIR": f"{folder}/cache", "KILN_SOURCE": str(ROOT), "NO_COLOR": "1",
            "KILN_LOG": "warning,progress=off"}


def run(command, folder):
    """What a command prints, standard error included, and whether it succeeded."""
    result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(folder), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    output = result.stdout.replace(str(folder), "FOLDER").replace(str(ROOT), "kiln")
    return "\n".join(line.rstrip() for line in output.splitlines()), result.returncode == 0


def replay(block, folder, complaints, name):
    shown = []
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    for part in parts:
        command, _, expected = part.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command += "\n" + more
        printed, succeeded = run(command, folder)
        if not succeeded:
            complaints.append(f"{name}: failed: $ {command}\n{printed}\n")
        elif not same(printed, expected):
            complaints.append(f"{name}: $ {command}\n--- shown\n{expected}--- printed\n{printed}\n")
        shown.append(f"$ {command}\n" + (printed + "\n" if printed else ""))
    return "".join(shown)


def check_document(path, complaints):
    text = path.read_text()
    name = path.relative_to(ROOT)
    for file, quoted in QUOTATION.findall(text):
        if quoted.strip() not in (ROOT / file).read_text():
            complaints.append(f"{name}: this is not in {file}:\n{quoted}")
    if not BLOCK.search(text):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = []
        new = BLOCK.sub(lambda m: found.append(m) or f"```console\n{replay(m.group(1), folder, complaints, name)}```", text)
    if WRITE and new != text:
        path.write_text(new)
    return len(found)


def main():
    complaints, blocks = [], 0
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for document in documents:
        blocks += check_document(document, complaints)
    if WRITE:
        complaints = [text for text in complaints if "this is not in" in text or ": failed: " in text]
    print("\n".join(complaints))
    print(f"{len(documents)} documents, {blocks} blocks of commands, {len(complaints)} differences")
    return 1 if complaints else 0


sys.exit(main())

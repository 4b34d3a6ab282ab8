#!/usr/bin/env python3
"""Checks the rules of docs/style.md that a regular expression can check.

Prints one line for each violation, as path:line: rule, and fails if there is any.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

from pages import anchor_of  # noqa: E402

# Who may link whom. The order in libs/CMakeLists.txt forbids circles; this forbids sideways edges.
EDGES = {
    "base": set(),
    "ir": {"base"},
    "autograd-cache": {"base"},
    "container-runtime": {"base"},
    "capture": {"base", "ir"},
    "partitioner": {"base", "ir"},
    "codegen": {"base", "ir"},
    "export": {"base", "ir", "capture"},
    "autograd-dispatch": {"base", "ir", "capture"},
}
EDGES["jit"] = set(EDGES)
EDGES["kiln"] = set(EDGES)

# Which folders of a library's src may include which, by the same rule: a folder knows only folders
# named above it, so there are no circles. A backend's own folder is known by the driver alone.
FOLDERS = {
    "codegen": {
        "graph": set(),
        "loop": set(),
        "text": set(),
        "toolchain": set(),
        "libtorch": {"graph"},
        "lower": {"loop"},
        "passes": {"graph", "libtorch", "lower"},
        "backend": {"loop", "toolchain"},
        "schedule": {"graph", "loop", "libtorch", "lower", "backend"},
        "program": {"graph", "loop", "text", "libtorch", "backend", "schedule"},
        "backend/cpu/kernels": set(),
        "backend/cpu/target": {"backend"},
        "backend/cpu/match": {"graph", "loop", "backend", "backend/cpu/target"},
        "backend/cpu/passes": {"graph", "backend/cpu/target", "backend/cpu/match"},
        "backend/cpu/library": {"backend", "backend/cpu/kernels", "backend/cpu/target", "backend/cpu/match"},
        "backend/cpu/emit": {"loop", "text", "backend", "schedule", "backend/cpu/kernels", "backend/cpu/target"},
        "backend/cpu": {"text", "toolchain", "passes", "backend", "backend/cpu/target", "backend/cpu/match",
                        "backend/cpu/passes", "backend/cpu/library", "backend/cpu/emit"},
        "backend/cuda/kernels": set(),
        "backend/cuda/target": {"backend"},
        "backend/cuda/passes": {"graph", "passes", "backend/cuda/target"},
        "backend/cuda/emit": {"loop", "text", "backend", "backend/cuda/target"},
        "backend/cuda/library": {"graph", "loop", "backend", "backend/cuda/target"},
        "backend/cuda": {"graph", "text", "toolchain", "passes", "backend", "backend/cuda/target",
                         "backend/cuda/passes", "backend/cuda/emit", "backend/cuda/library"},
    },
}
FOLDERS["codegen"]["driver"] = set(FOLDERS["codegen"])

RETIRED_WORDS = "tests/style/retired_words.txt"
RETIRED_WORDS_EXEMPT = (RETIRED_WORDS, "tests/style/rules_test.py")

WITHOUT_TORCH = ("base", "ir", "autograd-cache", "partitioner", "codegen")

violations: list[str] = []


def report(path: str, line: int, rule: str) -> None:
    violations.append(f"{path}:{line}: {rule}")


def tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")
    return sorted(name for name in listing if name and (ROOT / name).is_file())


def forbid(files: list[str], pattern: str, rule: str) -> None:
    """Reports every line of `files` that matches."""
    expression = re.compile(pattern)
    for name in files:
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if expression.search(line):
                report(name, number, rule)


def select(files: list[str], pattern: str) -> list[str]:
    return [name for name in files if re.search(pattern, name)]


def check_includes(files: list[str]) -> None:
    torch = r'^\s*#\s*include\s*[<"](torch|ATen|c10|caffe2)/'
    for library in WITHOUT_TORCH:
        own = select(files, rf"^libs/{library}/(include|src)/")  # tests may link sideways
        forbid(own, torch, f"{library} must not know torch")
    umbrella = r'^\s*#\s*include\s*[<"](torch/torch|torch/extension|ATen/ATen)\.h'
    forbid(select(files, r"^libs/[^/]+/include/"), umbrella, "too costly for a public header")
    forbid(
        select(files, r"^libs/[^/]+/src/"),
        r'^\s*#\s*include\s*[<"]torch/(torch|extension)\.h',
        "torch/torch.h is for tests: it costs half a minute a file",
    )
    forbid(
        [name for name in select(files, r"\.[ch]pp$") if not name.startswith("tests/support/")],
        r'^\s*#\s*include\s*[<"]catch2/',
        'tests include "kiln/testing/catch2.hpp"',
    )
    forbid(
        select(files, r"^libs/container-runtime/"),
        r'#\s*include\s*"kiln/(ir|capture|codegen|export|partitioner)',
        "the runtime must not know the compiler",
    )


def check_calls(files: list[str]) -> None:
    forbid(
        select(files, r"^(libs|tools)/.*\.[ch]pp$"),
        r"filesystem::remove_all\(|\bfs::remove_all\(",
        "some libtorch builds export a remove_all that crashes: kiln::remove_tree",
    )


def check_cmake(files: list[str]) -> None:
    ours = select(files, r"^(CMakeLists\.txt|(libs|tools|cmake)/.*(CMakeLists\.txt|\.cmake))$")
    forbid(ours, r"\bfile\s*\(\s*GLOB", "sources are listed, not globbed")
    forbid(ours, r"\b(FetchContent|ExternalProject)", "the build downloads nothing")
    forbid(
        ours,
        r"^\s*(include_directories|link_libraries|link_directories|add_definitions|add_compile_options)\s*\(",
        "directory-wide settings leak; use a target",
    )
    # What stands at the margin is product; a test may need a fixture of its own.
    forbid(
        select(files, r"^libs/.*CMakeLists\.txt$"),
        r"^(add_library|add_executable|add_test|find_package)\s*\(",
        "kiln_library(), kiln_archive(), kiln_test() and kiln_benchmark() are the only ways",
    )
    forbid(ours, r"\$\{TORCH_LIBRARIES\}", "link the target torch: the list holds absolute paths")


def check_libraries(files: list[str]) -> None:
    for library, allowed in EDGES.items():
        manifest = f"libs/{library}/CMakeLists.txt"
        if manifest not in files:
            report(manifest, 1, "the library is missing")
            continue
        text = re.sub(r"#.*", "", (ROOT / manifest).read_text())
        call = re.search(r"kiln_library\(([^)]*)\)", text)
        linked = set(re.findall(r"kiln::([\w-]+)", call.group(1) if call else ""))
        for other in sorted(linked - allowed - {"container"}):
            report(manifest, 1, f"{library} must not depend on {other}")
        scripts = select(files, rf"^libs/{library}/.*\.cmake$")
        listed = text + "".join((ROOT / script).read_text() for script in scripts)
        for source in select(files, rf"^libs/{library}/(src|tests|benchmarks)/.*\.cpp$"):
            if not re.search(rf"\b{Path(source).stem}\b", listed):
                report(source, 1, f"is not in {manifest}: nobody compiles it")
        readme = f"libs/{library}/README.md"
        if readme not in files:
            report(readme, 1, "every library has one")
        elif len((ROOT / readme).read_text().splitlines()) > 40:
            report(readme, 41, "a library's README has at most 40 lines")


def folder_of(path: str, folders: dict[str, set[str]]) -> str | None:
    """The folder of `folders` that `path`, which is relative to src, stands in: the deepest one."""
    parents = [parent.as_posix() for parent in Path(path).parents]
    return next((parent for parent in parents if parent in folders), None)


def check_folders(files: list[str]) -> None:
    for library, folders in FOLDERS.items():
        source = f"libs/{library}/src/"
        own = [name.removeprefix(source) for name in files if name.startswith(source)]
        for known, (folder, allowed) in enumerate(folders.items()):
            for late in sorted(allowed - set(list(folders)[:known])):
                report("tests/style/rules.py", 1, f"FOLDERS: {folder} may not know {late}, which is below it")
        for name in select(own, r"\.[ch]pp$"):
            folder = folder_of(name, folders)
            if folder is None:
                report(source + name, 1, "stands in no folder of the table FOLDERS (tests/style/rules.py)")
                continue
            for number, line in enumerate((ROOT / source / name).read_text().splitlines(), 1):
                include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if not include or include.group(1).startswith("kiln/"):
                    continue
                if include.group(1) not in own:
                    report(source + name, number, "includes name their folder, from src on")
                    continue
                other = folder_of(include.group(1), folders)
                if other != folder and other not in folders[folder]:
                    report(source + name, number, f"{folder} must not know {other}")


def check_text(files: list[str]) -> None:
    code = select(files, r"^(libs|tools|tests)/.*\.(cpp|hpp|h)$")
    forbid(code, r"\b(TODO|FIXME|XXX|HACK)\b", "finish it, or write an issue")
    forbid(
        [name for name in code if "/src/" not in name or name.endswith(".hpp")],
        r"^using namespace (?!std::\S*literals)",
        "no using namespace at file scope in headers and tests",
    )
    own_text = [name for name in files if name != "tests/style/rules.py"]
    forbid(own_text, r"(?<![\w.$}])/(work|home|root|opt)/(?!someone)\w", "a path of somebody's machine")
    for name in select(code, r"\.(hpp|h)$"):
        text = (ROOT / name).read_text()
        if "#pragma once" not in text and "/include/" in name and not name.endswith(".h"):
            report(name, 1, "#pragma once is missing")
        if not text.startswith(("//", "/*")):
            report(name, 1, "a header begins with a comment: what it is for, and what it is not")


def check_documents(files: list[str]) -> None:
    """A block shows what a command printed; everything else fits a page."""
    for name in select(files, r"\.md$"):
        in_block = False
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            in_block ^= line.lstrip().startswith("```")
            if len(line) >= 120 and not in_block:
                report(name, number, "a line of Markdown ends before column 120")


def without_blocks(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.S | re.M)


def check_links(files: list[str]) -> None:
    """Links of Markdown within the repository lead somewhere, those with an anchor to a heading."""
    for name in select(files, r"\.md$"):
        page = ROOT / name
        for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists():
                report(name, 1, f"the link {link} leads nowhere")
            elif anchor and target.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", without_blocks(target), re.M)
                if anchor not in map(anchor_of, headings):
                    report(name, 1, f"the link {link} names no heading")


def retired_words(text: str) -> dict[str, str]:
    """What stands in retired_words.txt: each word or phrase with what to use instead."""
    entries = (line.partition("  # ") for line in text.splitlines() if not line.startswith("#"))
    return {word.strip(): instead.strip() for word, _, instead in entries if word.strip()}


def check_retired_words(files: list[str], words: dict[str, str]) -> None:
    # A phrase may be broken over two lines, in code with the marks of a comment between them.
    gap = r"(?:\s|//|#)+"
    patterns = {word: gap.join(map(re.escape, word.split())) for word in words}
    any_word = re.compile(rf"(?<!\w)(?:{'|'.join(patterns.values())})(?!\w)")
    for name in select(files, r"^(libs/|tools/|tests/|docs/|README\.md$|dev$)"):
        if name in RETIRED_WORDS_EXEMPT or name.endswith(".svg"):
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        for match in any_word.finditer(text):
            word = next(word for word, pattern in patterns.items() if re.fullmatch(pattern, match.group()))
            line = text.count("\n", 0, match.start()) + 1
            report(name, line, f"'{word}' is retired: {words[word]}")


def main() -> int:
    files = tracked_files()
    check_includes(files)
    check_calls(files)
    check_cmake(files)
    check_libraries(files)
    check_folders(files)
    check_text(files)
    check_documents(files)
    check_links(files)
    check_retired_words(files, retired_words((ROOT / RETIRED_WORDS).read_text()))
    for violation in violations:
        print(violation)
    print(f"{len(files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

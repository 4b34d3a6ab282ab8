"""Builds the documentation site: build.py [OUTPUT]

The pages are the documents of this repository, the examples' sources, and the reference of all public headers. The
site is in OUTPUT/html (build/docs/html if it is not said). A warning of Doxygen's, a link that leads nowhere and a
document that is in no section of the navigation are errors.
"""

import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

import check_links
from pages import ROOT, SITE_ROOT, BrokenLink, images_of, page_of, page_text
from sections import FOLDERS, REFERENCE, SECTIONS

SOURCES = (".cpp", ".hpp", ".py")


def tracked(pattern: str) -> list[str]:
    """The files of the repository that match, untracked ones that are not ignored included."""
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
                             cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listing.splitlines() if (ROOT / name).is_file())


def example_page(folder: str) -> str:
    """A document that shows the sources of an example."""
    files = [name for name in tracked(f"{folder}/*") if name.endswith(SOURCES)]
    main = next((name for name in files if name.endswith("/main.cpp")), files[0])
    text = [f"# {Path(folder).name}", ""]
    for name in sorted(files, key=lambda name: (name != main, name)):
        text += [f"## {Path(name).name}", "", f"```{Path(name).suffix}", (ROOT / name).read_text().rstrip(), "```", ""]
    return "\n".join(text)


def children_of(document: str, pages: dict[str, str]) -> list[str]:
    folder = FOLDERS.get(document)
    return sorted(name for name in pages if name.startswith(f"{folder}/") and name != document) if folder else []


def title_of(text: str) -> str:
    return re.search(r"^# (.*)$", text, re.M).group(1).replace("`", "")


def layout(pages: dict[str, str]) -> str:
    """The navigation, as Doxygen's layout file has it."""
    def tab(kind: str, title: str, url: str = "", children: list[str] = ()) -> str:
        link = f' url="{url}"' if url else ""
        head = f'<tab type="{kind}" visible="yes" title="{escape(title, quote=False)}"{link}'
        return f"{head}>{''.join(children)}</tab>" if children else f"{head}/>"

    def entry(document: str) -> str:
        children = [entry(child) for child in children_of(document, pages)]
        return tab("usergroup" if children else "user", title_of(pages[document]), f"{page_of(document)}.html", children)

    tabs = [tab("mainpage", "Kiln")]
    for section, documents in SECTIONS.items():
        entries = [entry(document) for document in documents]
        tabs.append(entries[0] if len(entries) == 1 else tab("usergroup", section, "", entries))
    tabs.append(tab("usergroup", "Reference", "", [
        entry(REFERENCE), tab("namespacelist", "Namespaces"), tab("namespacemembers", "Functions and types"),
        tab("classlist", "Classes"), tab("filelist", "Headers")]))
    return f'<doxygenlayout version="1.0"><navindex>{"".join(tabs)}</navindex></doxygenlayout>\n'


def site_pages() -> dict[str, str]:
    """The text of every document that becomes a page, by its path."""
    pages = {name: (ROOT / name).read_text() for name in tracked("*.md") if not name.startswith(".github/")}
    for listing in tracked("examples/*/*"):
        folder = str(Path(listing).parent)
        if folder not in pages:
            pages[folder] = example_page(folder)
    return pages


def homeless(pages: dict[str, str]) -> list[str]:
    placed = {SITE_ROOT, REFERENCE, *(name for names in SECTIONS.values() for name in names)}
    placed |= {child for name in placed for child in children_of(name, pages)}
    return sorted(set(pages) - placed)


def version() -> str:
    return re.search(r"KILN_VERSION (\S+)\)", (ROOT / "cmake/Kiln.cmake").read_text()).group(1)


def doxygen_is_at_least(major: int, minor: int, patch: int) -> bool:
    found = subprocess.run(["doxygen", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.match(r"(\d+)\.(\d+)\.(\d+)", found).groups())) >= (major, minor, patch)


def settings(output: Path, pages: dict[str, str]) -> str:
    images = sorted({image for name in pages if (ROOT / name).is_file() for image in images_of(name)})
    headers = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("libs/*/include"))
    lines = [(ROOT / "docs/site/Doxyfile").read_text(),
             f"PROJECT_NUMBER = {version()}",
             f"OUTPUT_DIRECTORY = {output}",
             f"INPUT = {' '.join(headers)} docs/site/namespaces.dox {output}/pages",
             f"USE_MDFILE_AS_MAINPAGE = {output}/pages/index.md",
             f"STRIP_FROM_PATH = {' '.join(headers)} {output}/pages",
             f"STRIP_FROM_INC_PATH = {' '.join(headers)}",
             f"LAYOUT_FILE = {output}/layout.xml",
             f"HTML_EXTRA_FILES = {' '.join(images)}",
             "FILE_PATTERNS += *.md"]
    if doxygen_is_at_least(1, 9, 5):  # Before that there was one style, and the option is a warning.
        lines.append("HTML_COLORSTYLE = LIGHT")
    return "\n".join(lines) + "\n"


def main() -> int:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/docs").resolve()
    shutil.rmtree(output, ignore_errors=True)
    (output / "pages").mkdir(parents=True)
    pages = site_pages()
    if lost := homeless(pages):
        print("in no section of docs/site/sections.py:", *lost)
        return 1
    try:
        for name, text in pages.items():
            (output / "pages" / f"{page_of(name)}.md").write_text(page_text(text, name, set(pages)))
    except BrokenLink as broken:
        print(broken)
        return 1
    (output / "layout.xml").write_text(layout(pages))
    made = subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings(output, pages), text=True)
    if made.returncode != 0:
        return made.returncode
    return check_links.report(output / "html")


if __name__ == "__main__":
    sys.exit(main())

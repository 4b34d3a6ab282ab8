"""The documents as Doxygen reads them: GitHub's Markdown in, pages with names of their own out.

Doxygen knows neither the anchor that GitHub gives to each heading nor links to folders. So headings get labels, and
links within the repository become links to pages of the site. A page has as many lines as its document, so that a
warning names the right one.
"""

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
SITE_ROOT = "README.md"

FENCE = re.compile(r"^\s*```")
HEADING = re.compile(r"^(#+) (.*)$")
CODE_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")


class BrokenLink(Exception):
    """A link within the repository that leads to nothing on the site."""


def anchor_of(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def page_of(document: str) -> str:
    """The page of a document, of a folder's README.md, or of a folder with an example: how-to-cache, libs-base."""
    if document == SITE_ROOT:
        return "index"
    path = PurePosixPath(document)
    path = path.parent if path.name == "README.md" else path.with_suffix("") if path.suffix == ".md" else path
    parts = path.parts[1:] if path.parts[0] == "docs" else path.parts
    return "-".join(parts).lower()


def target_of(link: str, document: str, pages: set[str]) -> str:
    """Where on the site a link of `document` leads; `pages` are the documents and the folders that have a page."""
    path, _, anchor = link.partition("#")
    target = document
    if path:
        resolved = (ROOT / document).parent.joinpath(path).resolve()
        target = resolved.relative_to(ROOT).as_posix()
        target = f"{target}/README.md" if f"{target}/README.md" in pages else target
    if target not in pages:
        raise BrokenLink(f"{document}: the link {link} leads to no page of the site")
    page = page_of(target)
    return f"{page}.html" + (f"#{page}-{anchor}" if anchor else "")


def site_links(text: str, document: str, pages: set[str]) -> str:
    """Images and links of a stretch of text, which may span lines."""
    def image(match: re.Match) -> str:
        name = PurePosixPath(match.group(2)).name
        return f'<img src="{name}" alt="{match.group(1)}"/>'

    def link(match: re.Match) -> str:
        words, to = match.groups()
        href = to if OUTSIDE.match(to) else target_of(to, document, pages)
        return f'<a href="{href}">{words}</a>'

    # A closing quote ends a code span for Doxygen, unless the span has two backticks.
    spans = []

    def keep(match: re.Match) -> str:
        spans.append(f"`` {match.group(2)} ``" if "'" in match.group(2) else match.group())
        return f"\0{len(spans) - 1}\0"

    text = CODE_SPAN.sub(keep, text)
    text = LINK.sub(link, IMAGE.sub(image, text))
    text = re.sub(r"(?<![\\\w])([@\\])(?=\w)", r"\\\1", text)  # not a command of Doxygen's
    return re.sub("\0(\\d+)\0", lambda match: spans[int(match.group(1))], text)


def page_text(text: str, document: str, pages: set[str]) -> str:
    """The page of `document`, whose text is `text`."""
    page, out, stretch, in_fence = page_of(document), [], [], False

    def flush() -> None:
        if stretch:
            out.extend(site_links("\n".join(stretch), document, pages).split("\n"))
            stretch.clear()

    for line in text.split("\n"):
        heading = None if in_fence else HEADING.match(line)
        if FENCE.match(line) or in_fence:
            flush()
            in_fence ^= bool(FENCE.match(line))
            out.append(line)
        elif heading:
            flush()
            marks, title = heading.groups()
            label = page if marks == "#" else f"{page}-{anchor_of(title)}"
            out.append(f"{marks} {title} {{#{label if page != 'index' or marks != '#' else 'mainpage'}}}")
        else:
            stretch.append(line)
    flush()
    return "\n".join(out)


def images_of(document: str) -> list[str]:
    """The pictures that a document shows, as paths in the repository."""
    folder = (ROOT / document).parent
    shown = [match.group(2) for match in IMAGE.finditer((ROOT / document).read_text())]
    return [(folder / path).resolve().relative_to(ROOT).as_posix() for path in shown if not OUTSIDE.match(path)]

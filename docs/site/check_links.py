"""Checks the built site: check_links.py FOLDER

Every link and every picture of every page leads to a file of the site, those with an anchor to a place on that page.
Addresses of other hosts are not asked: the site loads nothing from them, which is checked too.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Doxygen 1.9.4 links to a list of nested classes also where all of them are private and there is no list.
UNWRITTEN_LISTS = {"nested-classes"}
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """The ids of a page, and what it links to and loads."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.ids.update(value for name in ("id", "name") if (value := values.get(name)))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in LOADED and values.get(LOADED[tag]):
            self.loads.append(values[LOADED[tag]])


def broken_links(site: Path) -> list[str]:
    """One line for each link that leads nowhere and each thing that another host would have to send."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    complaints = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme not in ("data", "javascript"):
                    complaints.append(f"{name}: loads {address} from another host")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not target.is_file():
                complaints.append(f"{name}: {address} leads nowhere")
            elif target in pages and unquote(parts.fragment) not in pages[target].ids | UNWRITTEN_LISTS | {""}:
                complaints.append(f"{name}: {address} names no place on that page")
    return complaints


def report(site: Path) -> int:
    """Prints what is broken, and is an exit status."""
    complaints = broken_links(site.resolve())
    for complaint in complaints:
        print(complaint)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(complaints)} broken links: {site}/index.html")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1])))

"""Tests of docs/site: how documents become pages, and which links are found broken."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

from build import homeless, site_pages  # noqa: E402
from check_links import broken_links  # noqa: E402
from header_filter import documented  # noqa: E402
from pages import BrokenLink, anchor_of, page_of, page_text  # noqa: E402

PAGES = {"README.md", "docs/ir.md", "docs/how-to/README.md", "docs/how-to/cache.md", "libs/base/README.md"}


def converted(text, document="docs/ir.md"):
    return page_text(text, document, PAGES)


class Pages(unittest.TestCase):
    def test_a_page_is_named_after_its_document(self):
        for document, page in (
            ("README.md", "index"), ("docs/ir.md", "ir"), ("docs/how-to/README.md", "how-to"),
            ("docs/how-to/cache.md", "how-to-cache"), ("libs/base/README.md", "libs-base"),
            ("CHANGELOG.md", "changelog"), ("examples/inference", "examples-inference"),
        ):
            with self.subTest(document):
                self.assertEqual(page_of(document), page)

    def test_no_two_documents_have_one_page(self):
        names = [page_of(document) for document in site_pages()]
        self.assertEqual(len(names), len(set(names)))

    def test_every_document_is_in_the_navigation(self):
        self.assertEqual(homeless(site_pages()), [])
        self.assertEqual(homeless({"docs/lost.md": "# Lost"}), ["docs/lost.md"])

    def test_headings_have_the_anchors_that_github_gives_them(self):
        self.assertEqual(anchor_of("What `kiln` keeps, and why"), "what-kiln-keeps-and-why")
        self.assertEqual(converted("# The IR\n## The text form"), "# The IR {#ir}\n## The text form {#ir-the-text-form}")

    def test_links_lead_to_pages(self):
        for link, href in (
            ("how-to/cache.md", "how-to-cache.html"), ("how-to/cache.md#redis", "how-to-cache.html#how-to-cache-redis"),
            ("how-to", "how-to.html"), ("../libs/base", "libs-base.html"), ("../README.md", "index.html"),
            ("#types", "ir.html#ir-types"), ("https://pytorch.org/x", "https://pytorch.org/x"),
        ):
            with self.subTest(link):
                self.assertEqual(converted(f"[a\nb]({link})"), f'<a href="{href}">a\nb</a>')

    def test_a_link_to_nothing_is_refused(self):
        with self.assertRaisesRegex(BrokenLink, "docs/ir.md: the link gone.md"):
            converted("[a](gone.md)")

    def test_code_is_left_alone(self):
        for text in ("`f[i](x)`", "```\n# no heading [a](gone.md)\n```", "`` a`b ``"):
            with self.subTest(text):
                self.assertEqual(converted(text), text)
        self.assertEqual(converted("`it's`"), "`` it's ``")

    def test_commands_of_doxygen_are_escaped(self):
        self.assertEqual(converted(r"write @brief or \ref"), r"write \@brief or \\ref")

    def test_a_page_has_the_lines_of_its_document(self):
        text = (ROOT / "docs/tutorial.md").read_text()
        page = page_text(text, "docs/tutorial.md", set(site_pages()))
        self.assertEqual(page.count("\n"), text.count("\n"))


class Headers(unittest.TestCase):
    def test_the_first_comment_documents_the_file(self):
        self.assertEqual(documented("// What it is.\n//   code\n\n#pragma once\n", "kiln/a.hpp"),
                         "/// What it is.\n///     code\n/// @file kiln/a.hpp\n#pragma once\n")

    def test_c_comments_too(self):
        self.assertEqual(documented("/* What\n * it is. */\n\n#ifndef A\n", "kiln/a.h"),
                         "/** What\n * it is.\n * @file kiln/a.h */\n#ifndef A\n")


class Links(unittest.TestCase):
    def check(self, page):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve()
            (site / "other.html").write_text('<h1 id="here"></h1><a name="there"></a>')
            (site / "picture.svg").write_text("")
            (site / "page.html").write_text(page)
            return broken_links(site)

    def test_links_that_lead_somewhere_pass(self):
        self.assertEqual(self.check(
            '<a id="top" href="other.html"></a><a href="other.html#here"></a><a href="other.html#there"></a>'
            '<a href="#top"></a><a href="https://pytorch.org"></a><img src="picture.svg"/>'), [])

    def test_others_are_found(self):
        for page, complaint in (
            ('<a href="gone.html">', "page.html: gone.html leads nowhere"),
            ('<img src="gone.svg"/>', "page.html: gone.svg leads nowhere"),
            ('<a href="other.html#gone">', "page.html: other.html#gone names no place on that page"),
            ('<a href="#gone">', "page.html: #gone names no place on that page"),
            ('<script src="https://cdn.example/x.js"></script>', "page.html: loads https://cdn.example/x.js from another host"),
        ):
            with self.subTest(page):
                self.assertEqual(self.check(page), [complaint])


if __name__ == "__main__":
    unittest.main()

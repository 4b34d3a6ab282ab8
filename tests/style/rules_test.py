#!/usr/bin/env python3
"""Tests of rules.py and size.py: what tables and limits forbid is found, and the rest is not."""

import tempfile
import unittest
from pathlib import Path

import rules
import size


def violations_in(files: dict[str, str], check) -> list[str]:
    """What `check` reports of a workspace that has only `files`."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        rules.ROOT, rules.violations = Path(directory), []
        check(sorted(files))
        return rules.violations


class FolderRules(unittest.TestCase):
    def violations(self, files: dict[str, str], folders: dict[str, set[str]]) -> list[str]:
        rules.FOLDERS = {"x": folders}
        return violations_in(files, rules.check_folders)

    def test_an_edge_that_is_not_in_the_table_is_found(self):
        files = {
            "libs/x/src/low/a.hpp": '#include "high/b.hpp"\n',
            "libs/x/src/high/b.hpp": '#include "low/a.hpp"\n',
        }

        found = self.violations(files, {"low": set(), "high": {"low"}})

        self.assertEqual(found, ["libs/x/src/low/a.hpp:1: low must not know high"])

    def test_a_folder_in_a_folder_is_one_of_its_own(self):
        files = {
            "libs/x/src/back/seam.hpp": "",
            "libs/x/src/back/cpu/emit/a.cpp": '#include "back/seam.hpp"\n#include "back/cpu/b.hpp"\n',
            "libs/x/src/back/cpu/b.hpp": "",
            "libs/x/src/plan/c.cpp": '#include "back/seam.hpp"\n#include "back/cpu/b.hpp"\n',
        }

        found = self.violations(files, {"back": set(), "plan": {"back"}, "back/cpu": {"back"}})

        self.assertEqual(found, ["libs/x/src/plan/c.cpp:2: plan must not know back/cpu"])

    def test_a_table_with_a_circle_is_refused(self):
        found = self.violations({}, {"low": {"high"}, "high": {"low"}})

        self.assertEqual(len(found), 1)
        self.assertIn("low may not know high", found[0])

    def test_a_file_outside_the_table_is_found(self):
        found = self.violations({"libs/x/src/stray.cpp": ""}, {"low": set()})

        self.assertEqual(len(found), 1)
        self.assertIn("stands in no folder", found[0])


class Documents(unittest.TestCase):
    def test_long_lines_are_found_and_those_of_blocks_are_not(self):
        long = "word " * 30
        files = {"docs/a.md": f"short\n\n```\n{long}\n```\n\n{long}\n"}

        found = violations_in(files, rules.check_documents)

        self.assertEqual(found, ["docs/a.md:7: a line of Markdown ends before column 120"])


    def test_links_that_lead_nowhere_are_found(self):
        files = {
            "README.md": "[a](docs/a.md#the-first-one) [b](docs/b.md) [c](docs/a.md#second) [d](https://d.org/x)\n",
            "docs/a.md": "# The `first` one\n\n[up](../README.md) [here](#the-first-one)\n\n```\n# second\n```\n",
        }

        found = violations_in(files, rules.check_links)

        self.assertEqual(found, ["README.md:1: the link docs/b.md leads nowhere",
                                 "README.md:1: the link docs/a.md#second names no heading"])


class RetiredWords(unittest.TestCase):
    def violations(self, files: dict[str, str], text: str) -> list[str]:
        return violations_in(files, lambda names: rules.check_retired_words(names, rules.retired_words(text)))

    def test_a_retired_word_is_found_with_its_line_and_what_to_use(self):
        found = self.violations({"libs/x/src/a.cpp": "int a;\nRung b;\n"}, "# Names\nRung  # CallPath\n")

        self.assertEqual(found, ["libs/x/src/a.cpp:2: 'Rung' is retired: CallPath"])

    def test_words_are_matched_whole_and_by_case(self):
        found = self.violations({"docs/a.md": "rung, Rungs, a_Rung"}, "Rung  # CallPath\n")

        self.assertEqual(found, [])

    def test_a_phrase_is_found_across_lines_and_comment_marks(self):
        files = {"docs/a.md": "which OpenBLAS loses\nitself on\n", "tools/b.cpp": "// loses\n// itself\n"}

        found = self.violations(files, "loses itself  # handles poorly\n")

        self.assertEqual(len(found), 2)
        self.assertIn("docs/a.md:1:", found[0])
        self.assertIn("tools/b.cpp:1:", found[1])

    def test_only_the_project_s_own_text_is_looked_at(self):
        files = {"CHANGELOG.md": "Rung\n", "tests/style/retired_words.txt": "Rung  # CallPath\n", "dev": "Rung\n"}

        found = self.violations(files, "Rung  # CallPath\n")

        self.assertEqual(found, ["dev:1: 'Rung' is retired: CallPath"])


class Limits(unittest.TestCase):
    """Of files and functions (size.py)."""

    def test_a_long_file_and_a_long_function_are_found(self):
        body = "  if (x) {\n    y(\"}\");  // {\n  }\n"
        short, long = (f"int f(int x,\n      int z) {{\n{body * count}}}\n" for count in (25, 27))
        source = "namespace a {\nstruct B {\n  int c[2] = {1, 2};\n};\n" + short + long + "}\n"

        found = size.too_long("libs/codegen/src/a.cpp", source)

        self.assertEqual(found, ["libs/codegen/src/a.cpp:83: a function of 84 lines, the limit is 80"])
        self.assertEqual(size.too_long("libs/codegen/src/b.cpp", "\n" * 401),
                         ["libs/codegen/src/b.cpp: 401 lines, the limit is 400"])
        self.assertEqual(size.too_long("libs/codegen/src/b.cpp", "\n" * 400), [])
        self.assertEqual(size.too_long("libs/capture/src/b.cpp", "\n" * 401), [])


if __name__ == "__main__":
    unittest.main()

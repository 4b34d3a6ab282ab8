#!/usr/bin/env python3
"""Tests of rules.py: what the table of folders forbids is found, and what it allows is not."""

import tempfile
import unittest
from pathlib import Path

import rules


class FolderRules(unittest.TestCase):
    def violations(self, files: dict[str, str], folders: dict[str, set[str]]) -> list[str]:
        with tempfile.TemporaryDirectory() as directory:
            for name, text in files.items():
                path = Path(directory) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            rules.ROOT, rules.FOLDERS, rules.violations = Path(directory), {"x": folders}, []
            rules.check_folders(sorted(files))
            return rules.violations

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


if __name__ == "__main__":
    unittest.main()

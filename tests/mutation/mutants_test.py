"""Which mistakes are made in a source, and which are not."""

import unittest

from mutants import mutants_of

SOURCE = """\
#include <a < b>
// a < b
int f(int a, int b) {
  if (a < b && is_good(a, b)) {
    list.push_back("a < b");
    total += a;
  }
  throw Error(a < b);
}
"""


class Mutants(unittest.TestCase):
    def setUp(self):
        self.found = {mutant.what: mutant for mutant in mutants_of("f.cpp", SOURCE)}

    def test_each_kind_is_found_once_and_nothing_in_comments_strings_or_errors(self):
        self.assertEqual(set(self.found), {
            "'<' became '<='", "'&&' became '||'", "'if (a < b && is_good(a, b))' was negated",
            "'list.push_back(\"a < b\");' was left out", "'total += a;' was left out",
            "arguments of 'is_good(a, b)' were swapped"})

    def test_a_mistake_is_made_where_it_says(self):
        mutant = self.found["'&&' became '||'"]
        self.assertEqual(mutant.line, 4)
        self.assertIn("if (a < b || is_good(a, b)) {", mutant.applied(SOURCE))
        negated = self.found["'if (a < b && is_good(a, b))' was negated"]
        self.assertIn("if (!(a < b && is_good(a, b))) {", negated.applied(SOURCE))
        left_out = self.found["'total += a;' was left out"].applied(SOURCE)
        self.assertNotIn("total", left_out)
        self.assertEqual(left_out.count("\n"), SOURCE.count("\n"))


if __name__ == "__main__":
    unittest.main()

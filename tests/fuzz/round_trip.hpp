// What must hold of whatever a parser accepts: it prints, and what is printed reads as the same.

#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::fuzz {

inline void require_equal(const std::string& first, const std::string& second) {
  if (first != second) {
    std::cerr << "a round trip changed the graph:\n" << first << "\nbecame\n" << second << "\n";
    std::abort();
  }
}

/// Ends the process if `graph`, which keeps the rules, does not survive the text form and JSON.
inline void check_round_trips(const ir::Graph& graph) {
  try {
    ir::verify(graph);
  } catch (const Error&) {
    return;
  }
  const std::string text = ir::print(graph);
  require_equal(text, ir::print(ir::parse(text)));
  require_equal(text, ir::print(ir::from_json(ir::to_json(graph))));
  (void)ir::canonical_bytes(graph);
}

}  // namespace kiln::fuzz

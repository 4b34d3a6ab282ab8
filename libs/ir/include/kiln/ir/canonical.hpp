// A graph as bytes that are equal for programs that are equal: what cache keys are made of.

#pragma once

#include <string>

#include "kiln/base/digest.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// What two equal programs may differ in.
struct CanonicalOptions {
  /// Include what the user calls inputs and outputs ("fc1.weight"): equal layers of one model then
  /// differ.
  bool user_names = true;
  /// Include what sizes were in the example. What is compiled from graphs that differ in nothing
  /// else computes the same, at other speeds.
  bool hints = true;
  /// Include what symbols are called: a package that refuses a size says it.
  bool symbol_names = false;
};

/// The content of `graph`.
///
/// Left out: the graph's name, names of values and symbols, provenance, the numbers of storages
/// (who shares one stays), and in a functional graph the order of independent pure nodes and the
/// nodes that nothing needs. The format is private: compare it, digest it, do not read it.
[[nodiscard]] std::string canonical_bytes(const Graph& graph, const CanonicalOptions& options = {});

/// The digest of the canonical bytes.
[[nodiscard]] Digest digest_of(const Graph& graph, const CanonicalOptions& options = {});

}  // namespace kiln::ir

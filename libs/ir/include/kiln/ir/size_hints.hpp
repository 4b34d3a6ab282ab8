// What sizes usually are: for choices that are right at every size and differ in speed.

#pragma once

#include <cstdint>
#include <string>

#include "kiln/ir/expr.hpp"

namespace kiln::ir {

class Graph;

/// Gives expressions the value that is to be expected of them.
///
/// A symbol counts as what it was in the example that was traced (`Graph::hints()`), or else as
/// `kUsual`; both are brought into its range.
class SizeHints {
 public:
  /// How large batches and lengths are that nothing is known of.
  static constexpr std::int64_t kUsual = 64;

  SizeHints() = default;                   ///< Nothing is known of any symbol.
  explicit SizeHints(const Graph& graph);  ///< What `graph` knows.

  /// At least 1 for what varies; a number is itself.
  [[nodiscard]] std::int64_t operator()(const Expr& expr) const { return value(expr, 0); }
  /// The same where symbols are at least `kUsual`. For choices that cost little where sizes are
  /// small, but much where a small example is followed by large calls, and to tell which of two
  /// sizes is longer, of which examples of one and two say nothing.
  [[nodiscard]] std::int64_t at_scale(const Expr& expr) const { return value(expr, kUsual); }

  /// Whether `expr` is at least `least` at every size in range. False where that cannot be told.
  [[nodiscard]] bool always_at_least(const Expr& expr, std::int64_t least) const {
    return expr.bounds(ranges_).low >= least;
  }

 private:
  [[nodiscard]] std::int64_t value(const Expr& expr, std::int64_t least) const;
  [[nodiscard]] std::int64_t of_symbol(const std::string& name, std::int64_t least) const;

  Ranges ranges_;
  Bindings examples_;
};

}  // namespace kiln::ir

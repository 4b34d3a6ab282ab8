// Which kernel of a dump (KILN_DUMP) computes something else than the interpreter.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::tool {

/// A difference between what was computed and what the interpreter says.
struct Difference {
  std::string value;       ///< Of the graph.
  double largest = 0;      ///< Absolute; infinite where one is NaN and the other is not.
  std::int64_t count = 0;  ///< Elements that differ by more than is allowed.
  std::int64_t first = 0;  ///< The first of them, in row-major order.
};

/// One kernel call that is wrong.
struct WrongKernel {
  bool folds = false;    ///< Of the part that computes with constants, once for each set of them.
  std::size_t step = 0;  ///< Of its part.
  std::string kernel;    ///< The function's name.
  std::string comment;   ///< The operators in it.
  std::string file;      ///< Of the dump.
  std::vector<Difference> differences;
};

struct BisectOptions {
  std::vector<std::string> inputs = {};  ///< Files instead of the dump's own `inputs.pt`.
  std::optional<double> tolerance = {};  ///< Relative; by element type if absent.
};

/// What a search found.
struct BisectResult {
  std::size_t kernels_checked = 0;  ///< Calls.
  std::optional<WrongKernel> first;
  /// Of the whole program, compiled anew: differences at its outputs.
  std::vector<Difference> outputs;
};

/// Runs every kernel of the dump, those that fold constants first, as its source is now, on what
/// the interpreter says its operands are, and stops at the first whose results differ. Then runs
/// the program as a whole.
///
/// Throws `Error` if the folder is not a dump, or its source cannot be compiled.
[[nodiscard]] BisectResult bisect(const std::filesystem::path& dump, const BisectOptions& options);

}  // namespace kiln::tool

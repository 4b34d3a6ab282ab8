// Which kernel of a dump (KILN_DUMP) computes something else than the interpreter.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "difference.hpp"

namespace kiln::tool {

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
  std::size_t outputs_checked = 0;  ///< Of the whole program, inputs that it writes included.
  /// Differences at the outputs of the whole program, which is recompiled for that.
  std::vector<Difference> outputs;
};

/// Runs every kernel of the dump, those that fold constants first, as its source is now, on what
/// the interpreter says its operands are, and stops at the first whose results differ. Then runs
/// the program as a whole.
///
/// Throws `Error` if the folder is not a dump, or its source cannot be compiled.
[[nodiscard]] BisectResult bisect(const std::filesystem::path& dump, const BisectOptions& options);

}  // namespace kiln::tool

// `plan.json`, which the code generator leaves beside its source (docs/codegen.md).

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"

namespace kiln::tool {

/// What became of a graph: memory, kernels and the steps of a run, at some sizes.
struct Plan {
  struct Unit {
    std::string file;
    std::vector<std::string> flags;
  };
  struct Buffer {
    std::string memory;  ///< input, constant, arena, allocated, callee_allocated
    std::string dtype;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t bytes = 0;
    bool used = false;
    std::int64_t first = 0, last = 0;  ///< Steps.
    std::int64_t offset = 0;           ///< In the arena.
  };
  struct Location {
    std::size_t buffer = 0;
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes, strides;
  };
  struct Kernel {
    std::string name, comment;
    bool checks_indices = false;
  };
  struct Operand {
    std::size_t buffer = 0;
    std::int64_t offset = 0;
    bool written = false;
  };
  /// A kernel on buffers, or an operator of libtorch on values.
  struct Step {
    bool is_kernel = false;
    std::size_t kernel = 0;
    std::vector<Operand> operands;
    std::vector<std::int64_t> sizes;
    std::vector<std::string> nodes;  ///< Operators in the kernel, with their modules.
    std::string target;              ///< The operator of libtorch.
    std::vector<std::string> reads, results;
    std::int64_t bytes_read = 0, bytes_written = 0, operations = 0;
  };

  std::string graph;
  std::int64_t arena_bytes = 0;
  std::vector<std::string> compiler;
  std::vector<Unit> units;
  std::vector<Buffer> buffers;
  std::map<std::string, Location> values;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;

  /// Whether the value at `location` is all of its buffer.
  [[nodiscard]] bool is_whole(const Location& location) const;
};

/// Reads the JSON, with the values that symbols have in `sizes`.
///
/// Throws `Error`: `kCorrupt` if it is not a plan, `kUnsupported` for symbolic sizes where there
/// are no values, `kInvalidArgument` for a symbol without one.
[[nodiscard]] Plan read_plan(const std::string& text, const ir::Bindings& sizes = {});

/// The text of the kernel `name` in the sources of `folder`, or nothing.
[[nodiscard]] std::string kernel_source(const std::filesystem::path& folder,
                                        const Plan& plan,
                                        const std::string& name);

}  // namespace kiln::tool

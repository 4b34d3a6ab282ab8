// The sizes of a call that a version for a range of sizes takes.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input_names.hpp"
#include "kiln/autograd_dispatch/plan.hpp"
#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

/// Sizes of arguments, each a number or a symbol times a number plus a number, and the values that
/// symbols may have. A symbol is read where it is first mentioned, and compared elsewhere.
/// Arguments that mention one are dense, with their dimensions in the order they were traced in.
class SymbolicSizes {
 public:
  /// Those of the inputs of `graph`, which `inputs` say the arguments for.
  ///
  /// Throws `Error` with `kUnsupported` for an input that mentions a symbol and is not dense.
  SymbolicSizes(const ir::Graph& graph,
                const std::vector<autograd_dispatch::InputPlan>& inputs,
                ir::Ranges ranges);

  /// Whether the sizes of an argument mention a symbol.
  [[nodiscard]] bool mentions(std::size_t argument) const;

  /// Whether there are arguments of the right ranks where it mentions some.
  [[nodiscard]] bool has_ranks_of(const std::vector<at::Tensor>& arguments) const;

  /// Whether arguments, of which those that mention symbols have the right ranks, have such sizes
  /// and strides.
  [[nodiscard]] bool holds(const std::vector<at::Tensor>& arguments) const;

  /// The first argument that it does not hold for; nothing if it holds.
  [[nodiscard]] std::optional<std::size_t> first_mismatch(
      const std::vector<at::Tensor>& arguments) const;

  /// How arguments that it does not hold for differ: "input 0 'x', dimension 0: 's0' is 600, must
  /// be 1 … 512". Empty if it holds.
  [[nodiscard]] std::string difference(const std::vector<at::Tensor>& arguments,
                                       const InputNames& names) const;

  /// The sizes of an argument that mentions a symbol: "[s0, 2*s0 + 1, 5]".
  [[nodiscard]] std::string sizes_text(std::size_t argument) const;
  /// The last of them: "s0".
  [[nodiscard]] std::string last_size_text(std::size_t argument) const;
  /// One line for each symbol: "'s0' in 0 … 1024: input 0 'x', dimension 0".
  [[nodiscard]] std::vector<std::string> describe(const InputNames& names) const;

  /// The values that symbols have for arguments that it holds for.
  [[nodiscard]] ir::Bindings values(const std::vector<at::Tensor>& arguments) const;
  /// The same as text: "'s0' = 20".
  [[nodiscard]] std::string values_text(const std::vector<at::Tensor>& arguments) const;
  [[nodiscard]] ir::Ranges ranges() const;
  /// Throws `Error` with `kCorrupt` if one of its symbols is not in `ranges`.
  void set_ranges(const ir::Ranges& ranges);

  /// For a cache, in one line.
  [[nodiscard]] std::string to_line() const;
  /// The inverse. Throws `Error` with `kCorrupt` if `line` is none.
  [[nodiscard]] static SymbolicSizes from_line(std::string_view line);

 private:
  SymbolicSizes() = default;

  struct Symbol {
    std::string name;
    ir::Range range;
  };
  // scale * symbol + shift; without a symbol, shift.
  struct Size {
    std::int32_t symbol = -1;
    std::int64_t scale = 1;
    std::int64_t shift = 0;
    bool is_source = false;  // The symbol is read here.
  };
  struct Argument {
    std::uint32_t position = 0;
    std::vector<Size> sizes;
    std::vector<std::uint32_t> order;  // Of dimensions, the innermost first.
  };

  [[nodiscard]] std::int32_t number_of(const std::string& symbol);
  void find_sources();
  [[nodiscard]] std::string expr_text(const Size& size) const;
  // Tells `failure` of the first thing that differs, if it is given.
  template <class Failure>
  [[nodiscard]] bool check(const std::vector<at::Tensor>& arguments, const Failure& failure) const;

  std::vector<Symbol> symbols_;
  std::vector<Argument> arguments_;
};

}  // namespace kiln

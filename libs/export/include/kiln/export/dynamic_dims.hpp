// Dimensions of inputs that may vary, as a user names them and as symbols.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/guard.hpp"
#include "kiln/ir/real_expr.hpp"

namespace kiln::exporter {

/// A dimension of an input that may have other sizes than the example's.
struct DynamicDim {
  std::variant<std::size_t, std::string> input;  ///< Its position, or its name.
  std::int64_t dim = 0;                          ///< Counted from the end if negative.
  /// The size: a symbol, "batch", or an expression of one, "2*batch", "batch + 1". Equal names are
  /// equal sizes. "auto" is a symbol of its own, or that of another dimension of the same size if
  /// the program takes no others; one that cannot vary, or is 0 or 1, stays as it is.
  std::string name;
  std::int64_t min = 1;          ///< The least value of the symbol.
  std::int64_t max = INT64_MAX;  ///< The largest.
};

/// What of a program's inputs may vary.
struct DynamicShapes {
  ir::Ranges symbols;                              ///< Values that symbols may have.
  std::vector<std::vector<ir::Expr>> input_sizes;  ///< Of each input; empty where it is fixed.
  std::vector<ir::Expr> known = {};            ///< What numbers in the program are likely to be.
  std::vector<ir::RealExpr> known_reals = {};  ///< The same of those that are no integers.
  std::vector<ir::Guard> guards = {};          ///< What must hold of the symbols in each call.
  std::set<std::string> automatic = {};        ///< Symbols of dimensions that were named "auto".
  /// Sizes to look at besides those that are chosen. What is found has to agree with the traces
  /// there. Symbols that one of them leaves out have the example's sizes.
  std::vector<ir::Bindings> confirm = {};
  /// The end of a range whose inputs are too large to be traced belongs to it. Otherwise ranges end
  /// where traces have been.
  bool trust_large_sizes = true;
  /// That many inputs, the last ones, are empty tensors with a size that stands for an integer.
  /// What is computed does not grow with it, so that it may be as large as its range allows.
  std::size_t integers = 0;
};

/// What `dims` say of inputs like `example`, which are called `names` where they have a name.
///
/// Throws `Error` with `kInvalidArgument` for one that is not a dimension of an input, has a name
/// that is not an expression of one symbol, or that the example's size contradicts.
[[nodiscard]] DynamicShapes dynamic_shapes_of(std::span<const DynamicDim> dims,
                                              const std::vector<at::Tensor>& example,
                                              std::span<const std::string> names);

/// Lets `symbol` be `other` wherever it occurs, in what both ranges allow.
void merge_symbols(DynamicShapes* shapes, const std::string& symbol, const std::string& other);

/// Merges symbols of dimensions named "auto" with others that have the same value in `example`.
void merge_equal_sizes(DynamicShapes* shapes, const std::vector<at::Tensor>& example);

/// The values that symbols have in `example`, where an input's size is a line in one of them.
[[nodiscard]] ir::Bindings sizes_in(const DynamicShapes& shapes,
                                    const std::vector<at::Tensor>& example);

}  // namespace kiln::exporter

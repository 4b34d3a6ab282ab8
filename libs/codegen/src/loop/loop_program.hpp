// A graph as loops: each tensor is memory, a function of its indices, or a reduction of one.
//
// Lowering makes it, fusion cuts it into kernels, and `evaluate()` (evaluate.hpp) is its meaning.

#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/size_hints.hpp"
#include "loop/scalar.hpp"

namespace kiln::codegen {

/// How a reduction combines.
enum class Reduction : std::uint8_t { kSum, kProduct, kMaximum, kMinimum, kAny, kAll };

/// "sum", "product", …
[[nodiscard]] std::string_view to_string(Reduction reduction);

/// Elements that are written into a tensor one after the other.
struct Updates {
  std::vector<ir::Expr> sizes = {};  ///< Extents of their variables.
  /// Only variables from `first` to below `last` may come to one place twice: those loops are in
  /// order.
  std::size_t first = 0, last = 0;
  ScalarId value = {};
  std::vector<Index> place = {};            ///< One for each dim of the tensor.
  std::optional<Reduction> reduction = {};  ///< With what is there already; nothing: replaces it.
};

/// A tensor of the loop program.
struct Tensor {
  enum class Kind : std::uint8_t {
    kMemory,     ///< An input, a constant, or what libtorch computes.
    kPointwise,  ///< `body` over variables 0 … rank-1.
    kReduction,  ///< `body` over those and then the reduced dims', combined by `reduction`.
    kScan,       ///< `body` combined by `reduction` along dim `scanned`, up to each element.
    kScatter,    ///< `body`, and then `updates`.
  };
  Kind kind = Kind::kMemory;
  ir::DType dtype = ir::DType::kFloat32;
  ir::Device device = {};
  std::vector<ir::Expr> sizes = {};
  /// How it lies in memory, or is to lie if it is materialised (dense then).
  std::vector<ir::Expr> strides = {};
  ScalarId body = {};
  std::vector<ir::Expr> reduced = {};  ///< Extents of the reduced dims.
  Reduction reduction = Reduction::kSum;
  std::size_t scanned = 0;
  std::optional<Updates> updates = {};
  TensorId reread = {};  ///< A tensor that the reduction reads whole for each of its results.
  bool is_view = false;  ///< A pointwise tensor whose body is one read: index arithmetic only.
  bool is_concatenation = false;  ///< Of many pieces: its loop is cut there, and reduces nothing.
  ir::NodeId node = {};           ///< What made it; invalid for inputs.
  ir::ValueId value = {};         ///< The graph's value; invalid for what only a lowering knows.

  /// Extents of the body's variables: the kept dims, then the reduced ones.
  [[nodiscard]] std::vector<ir::Expr> domain() const {
    std::vector<ir::Expr> extents = sizes;
    extents.insert(extents.end(), reduced.begin(), reduced.end());
    return extents;
  }

  /// Whether it is computed in an order of its own, which no other tensor's loops have.
  [[nodiscard]] bool is_sequential() const { return kind == Kind::kScan || kind == Kind::kScatter; }
};

/// Whether a loop over `rows` rows, of `elements` in all, may be cut where pieces meet. A few long
/// rows are cut into blocks for the threads instead.
[[nodiscard]] constexpr bool may_be_cut(std::int64_t rows, std::int64_t elements) {
  return rows >= 8 || elements <= 1 << 16;
}

/// Calls `visit(ScalarId)` for each expression that `tensor` is made of.
template <class Visit>
void for_each_root(const Tensor& tensor, const Visit& visit) {
  visit(tensor.body);
  if (tensor.updates) {
    visit(tensor.updates->value);
    for (const Index& index : tensor.updates->place) {
      for_each_computed(index, visit);
    }
  }
}

/// Tensors in an order in which each is defined before it is read.
struct LoopProgram {
  ScalarPool pool;
  std::vector<Tensor> tensors;
  std::vector<std::optional<TensorId>>
      of_value;  ///< By `ValueId`; nothing for what is not a tensor.
  /// By `NodeId`: for a node that is left to libtorch, how many tensors there were before it.
  std::vector<std::optional<std::uint32_t>> extern_at;
  ir::Ranges symbols = {};  ///< Values that sizes may have.
  ir::SizeHints hint = {};  ///< What they usually are: `program.hint(size)`.

  [[nodiscard]] const Tensor& operator[](TensorId id) const { return tensors[id.index()]; }
  [[nodiscard]] Tensor& operator[](TensorId id) { return tensors[id.index()]; }
};

}  // namespace kiln::codegen

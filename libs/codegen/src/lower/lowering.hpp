// What a lowering sees: one node, its operands as functions of indices, and a place for its
// results.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kiln/ir/uses.hpp"
#include "loop/formula.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

using Indices = std::span<const Index>;
using Body = std::function<Formula(Indices)>;

/// What a device decides about lowerings.
struct LoweringPolicy {
  std::function<bool(const ir::Node&)> is_wanted = {};  ///< Nodes that it refuses stay libtorch's.
  bool corrects_means = true;  ///< The mean of a layer norm is corrected for its rounding.
  /// Longer rows are not read again by the kernel that sums them.
  std::int64_t max_row_elements = 0;
};

/// One node on its way into a program.
class Lowering {
 public:
  Lowering(const ir::Graph& graph,
           const ir::Uses& uses,
           const LoweringPolicy& policy,
           LoopProgram& program,
           ir::NodeId node)
      : graph_(graph),
        uses_(uses),
        policy_(policy),
        program_(program),
        id_(node),
        node_(graph.node(node)) {}

  // Arguments, by position. An argument beyond the end is absent.
  [[nodiscard]] std::size_t argument_count() const { return node_.arguments.size(); }
  [[nodiscard]] bool has(std::size_t i) const;
  [[nodiscard]] bool is_tensor(std::size_t i) const;
  [[nodiscard]] TensorId tensor(std::size_t i) const;
  [[nodiscard]] std::vector<TensorId> tensors(std::size_t i) const;
  [[nodiscard]] std::vector<std::optional<TensorId>> optional_tensors(std::size_t i) const;
  [[nodiscard]] ir::Expr integer(std::size_t i, ir::Expr absent = 0) const;
  [[nodiscard]] std::vector<ir::Expr> integers(std::size_t i) const;
  [[nodiscard]] double real(std::size_t i, double absent = 0) const;
  /// Whether argument `i`, a number, depends on sizes.
  [[nodiscard]] bool varies(std::size_t i) const;
  [[nodiscard]] bool flag(std::size_t i, bool absent = false) const;
  [[nodiscard]] std::string_view text(std::size_t i) const;
  [[nodiscard]] std::vector<bool> flags(std::size_t i) const;
  /// A dim argument, counted from the front; nothing if it is symbolic.
  [[nodiscard]] std::optional<std::size_t> dim(std::size_t i,
                                               std::size_t rank,
                                               std::int64_t absent) const;
  /// A list of dims, sorted; all of them if it is absent or empty.
  [[nodiscard]] std::vector<std::size_t> dims(std::size_t i, std::size_t rank) const;

  // Operands.
  [[nodiscard]] const std::vector<ir::Expr>& sizes(TensorId tensor) const {
    return program_[tensor].sizes;
  }
  [[nodiscard]] ir::DType dtype(TensorId tensor) const { return program_[tensor].dtype; }
  /// An element, in the type that its type is computed in. A half that a result is not is rounded.
  [[nodiscard]] Formula read(TensorId tensor, std::vector<Index> indices) const;
  /// `tensor` at `indices` of a shape it is broadcast to.
  [[nodiscard]] Formula broadcast(TensorId tensor, Indices indices) const;
  /// Argument `i`, tensor or number, at `indices`, as an element of `type`.
  [[nodiscard]] Formula operand(std::size_t i, Indices indices, ir::DType type) const;
  /// The same as what a tensor is multiplied with or divided by: a single number keeps digits that
  /// a half type does not have.
  [[nodiscard]] Formula factor(std::size_t i, Indices indices, ir::DType type) const;
  [[nodiscard]] Formula number(std::size_t i, ir::DType type) const;
  /// Argument `i`, a number, with the digits that an element of `type` has.
  [[nodiscard]] Formula element(std::size_t i, ir::DType type) const;
  [[nodiscard]] Formula constant(double value, ir::DType type) const;
  /// A size, or a product of some, as a number.
  [[nodiscard]] Formula extent(const ir::Expr& size, ir::DType type) const;
  /// Whether `size` is at least `least` whatever varies.
  [[nodiscard]] bool always_at_least(const ir::Expr& size, std::int64_t least) const {
    return program_.hint.always_at_least(size, least);
  }
  /// Whether `size` is above 0 whatever varies.
  [[nodiscard]] bool is_positive(const ir::Expr& size) const { return always_at_least(size, 1); }
  /// What `size` is to be expected to be.
  [[nodiscard]] std::int64_t hint(const ir::Expr& size) const { return program_.hint(size); }
  /// The type arguments `first` and `second` are promoted to, by ATen's rules.
  [[nodiscard]] ir::DType promote(std::size_t first, std::size_t second) const;

  // Results.
  [[nodiscard]] std::size_t result_count() const { return node_.results.size(); }
  [[nodiscard]] bool wants(std::size_t result) const;
  /// Whether anything reads it.
  [[nodiscard]] bool is_used(std::size_t result) const;
  [[nodiscard]] const ir::TensorMeta& meta(std::size_t result) const;
  /// Result `result` is `body` at each index, cast to its type.
  void define(std::size_t result, const Body& body);
  /// The same for a body that chooses among many pieces by where it is: in a kernel that can be cut
  /// where they meet.
  void define_concatenation(std::size_t result, const Body& body);
  /// Result `result` is `source` seen through `map`, from the result's indices to the source's.
  void define_view(std::size_t result,
                   TensorId source,
                   const std::function<std::vector<Index>(Indices)>& map);
  /// A tensor of its own: `body` of all of `sizes`. Where it is read over and over, it is computed
  /// once.
  TensorId compute(std::vector<ir::Expr> sizes, ir::DType dtype, const Body& body);
  /// A tensor of its own: `body` of all of `sizes`, reduced over `dims`. Its shape has the kept
  /// dims only.
  TensorId reduce(Reduction reduction,
                  std::span<const ir::Expr> sizes,
                  std::span<const std::size_t> dims,
                  ir::DType dtype,
                  const Body& body);
  /// Tells that `reduced` reads the whole of `source` for each of its results.
  void rereads(TensorId reduced, TensorId source) { program_[reduced].reread = source; }
  /// The same reduction as result `result`, with or without the reduced dims kept as 1; `finish`
  /// comes last.
  void define_reduced(std::size_t result,
                      TensorId reduced,
                      std::span<const std::size_t> dims,
                      bool keep,
                      const std::function<Formula(Formula)>& finish);

  /// Result `result` is the running total of `body` along `dim`, kept in `type`.
  void define_scan(
      std::size_t result, Reduction reduction, std::size_t dim, ir::DType type, const Body& body);
  /// The updates that argument `i` is made of, if they are added to zeros and only this node reads
  /// it: they may as well be added to something else.
  [[nodiscard]] std::optional<Updates> single_use_scatter(std::size_t i) const;
  /// Result `result` is `body`, and then `updates`.
  void define_scatter(std::size_t result, const Body& body, Updates updates);

  [[nodiscard]] ScalarPool& pool() const { return program_.pool; }
  [[nodiscard]] const ir::Node& node() const { return node_; }
  [[nodiscard]] const ir::Graph& graph() const { return graph_; }
  [[nodiscard]] const LoweringPolicy& policy() const { return policy_; }

  /// Where the results lie.
  [[nodiscard]] ir::Device device() const;

 private:
  TensorId add(Tensor tensor);
  [[noreturn]] void refuse_varying() const;
  [[nodiscard]] bool leaves(ir::DType type) const;

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const LoweringPolicy& policy_;
  LoopProgram& program_;
  ir::NodeId id_;
  const ir::Node& node_;
};

/// Writes a node's results into the program; false if it is one for libtorch after all (what was
/// written is taken back then).
using Lower = std::function<bool(Lowering&)>;
/// By target: "aten.add.Tensor".
using Lowerings = std::unordered_map<std::string_view, Lower>;

void add_pointwise_lowerings(Lowerings& lowerings);
void add_logic_lowerings(Lowerings& lowerings);
void add_activation_lowerings(Lowerings& lowerings);
void add_creation_lowerings(Lowerings& lowerings);
void add_view_lowerings(Lowerings& lowerings);
void add_gather_lowerings(Lowerings& lowerings);
void add_reduction_lowerings(Lowerings& lowerings);
void add_variance_lowerings(Lowerings& lowerings);
void add_normalization_lowerings(Lowerings& lowerings);
void add_softmax_lowerings(Lowerings& lowerings);
void add_product_lowerings(Lowerings& lowerings);
void add_pooling_lowerings(Lowerings& lowerings);
void add_sequence_lowerings(Lowerings& lowerings);

/// Lowers every node of `graph` that has a lowering; the others become externs, their results
/// memory.
///
/// Throws `Error` with `kInvalidArgument` if a node mutates, `kUnsupported` for a device.
[[nodiscard]] LoopProgram lower(const ir::Graph& graph, const LoweringPolicy& policy = {});

/// Whether `target` ("aten.add.Tensor") has a lowering.
[[nodiscard]] bool has_lowering(std::string_view target);

/// Every target that has a lowering, in order.
[[nodiscard]] std::vector<std::string> lowered_targets();

/// An index that must be less than `size`: the kernel fails, and reads nothing, where it is not.
[[nodiscard]] Formula bounded(Formula index, const ir::Expr& size);
/// The same for an index that counts from the end if it is negative.
[[nodiscard]] Formula wrapped(Formula index, const ir::Expr& size);

/// `source` at `place`, or `outside` where one of `dims` leaves it. Nothing is read there.
[[nodiscard]] Formula read_or(Lowering& lowering,
                              TensorId source,
                              std::vector<Index> place,
                              std::span<const std::size_t> dims,
                              Formula outside);

/// The indices of a box of `rank` dims: its variables.
[[nodiscard]] std::vector<Index> variables(std::size_t rank);
/// The product of `sizes` over `dims`, as a number.
[[nodiscard]] ir::Expr count(std::span<const ir::Expr> sizes, std::span<const std::size_t> dims);
/// `indices` of a box without those of `dims`, which are in order.
[[nodiscard]] std::vector<Index> kept_indices(Indices indices, std::span<const std::size_t> dims);
/// Dims counted from the back are counted from the front.
[[nodiscard]] std::size_t wrap(std::int64_t dim, std::size_t rank);
/// A type that tensors may have in a kernel.
[[nodiscard]] bool is_lowerable(ir::DType dtype);
/// The strides a tensor is materialised with: the recorded ones if they are dense, else row-major.
[[nodiscard]] std::vector<ir::Expr> dense_strides(const ir::TensorMeta& meta);
/// Whether some order of the dims makes `strides` row-major over `sizes`.
[[nodiscard]] bool is_dense(std::span<const ir::Expr> sizes, std::span<const ir::Expr> strides);

}  // namespace kiln::codegen

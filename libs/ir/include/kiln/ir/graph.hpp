// The graph that every library shares: a list of operator calls in program order.
//
// Values and nodes are dense ids into tables that the graph owns, so a graph is a plain movable
// value and an analysis is a vector. A graph grows at its end; a pass that removes or reorders
// builds another graph (rewrite.hpp). What a node does beyond computing (mutation, aliasing,
// random numbers) is written on the node by whoever recorded it: no pass needs a table of schemas.

#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/base/id.hpp"
#include "kiln/ir/expr.hpp"
#include "kiln/ir/guard.hpp"
#include "kiln/ir/real_expr.hpp"
#include "kiln/ir/types.hpp"

namespace kiln::ir {

struct Node;
struct Value;
struct Storage;
/// A node, as an index into its graph's table.
using NodeId = Id<Node>;
/// A value, as an index into its graph's table.
using ValueId = Id<Value>;
/// Values with the same storage id share memory.
using StorageId = Id<Storage>;

/// Everything about a tensor but its elements.
struct TensorMeta {
  DType dtype = DType::kFloat32;   ///< Of its elements.
  Device device = {};              ///< Where its memory is.
  std::vector<Expr> sizes = {};    ///< One per dimension.
  std::vector<Expr> strides = {};  ///< In elements.
  Expr offset = 0;                 ///< In elements, from the start of the storage.
  bool requires_grad = false;      ///< As autograd says.
  bool conjugate = false;          ///< A view whose elements are to be read conjugated.
  bool negative = false;           ///< A view whose elements are to be read negated.
  StorageId storage = {};          ///< Whose memory it is.

  bool operator==(const TensorMeta&) const = default;  ///< Member by member.
};

/// Strides of a dense row-major tensor of `sizes`.
[[nodiscard]] std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);
/// The product of `sizes`.
[[nodiscard]] Expr element_count(std::span<const Expr> sizes);

/// A symbolic integer as a value, for instance a size saved for the backward.
struct SymIntMeta {
  Expr expr;  ///< Its value.

  bool operator==(const SymIntMeta&) const = default;  ///< Member by member.
};

/// What is known of a value: a tensor's metadata, or a symbolic integer.
using ValueMeta = std::variant<TensorMeta, SymIntMeta>;

/// What one graph input or one result of a node is.
struct Value {
  std::string name;                ///< Unique in the graph, without '%'.
  ValueMeta meta;                  ///< What kind of value, and of what shape.
  NodeId producer = {};            ///< Invalid for a graph input.
  std::uint32_t result_index = 0;  ///< Which result of the producer.

  /// Whether `tensor()` may be asked.
  [[nodiscard]] bool is_tensor() const { return std::holds_alternative<TensorMeta>(meta); }
  /// Of a tensor.
  [[nodiscard]] const TensorMeta& tensor() const { return std::get<TensorMeta>(meta); }
  [[nodiscard]] TensorMeta& tensor() { return std::get<TensorMeta>(meta); }  ///< Of a tensor.
};

/// A nested graph, by its position in `Graph::subgraphs()`.
struct SubgraphRef {
  std::uint32_t index = 0;                              ///< Its position.
  bool operator==(const SubgraphRef&) const = default;  ///< Member by member.
};

/// One argument of a node. Lists of values may hold invalid ids: an absent optional tensor.
using Argument = std::variant<std::monostate,  // None
                              ValueId,
                              std::vector<ValueId>,
                              Expr,  // int, SymInt, integral Scalar
                              std::vector<Expr>,
                              double,
                              std::vector<double>,
                              bool,
                              std::vector<bool>,
                              std::string,
                              std::vector<std::string>,
                              std::complex<double>,
                              DType,
                              Device,
                              Layout,
                              MemoryFormat,
                              SubgraphRef,
                              RealExpr>;  // float, floating Scalar; never a constant

/// The number as an argument: a double if it is constant.
[[nodiscard]] inline Argument argument_of(RealExpr real) {
  const std::optional<double> constant = real.constant();
  return constant ? Argument(*constant) : Argument(std::move(real));
}

/// Result `result` is the argument at `argument` seen through the node's view (or is that very
/// tensor).
struct Alias {
  std::uint32_t result = 0;                       ///< Position among the results.
  std::uint32_t argument = 0;                     ///< Position among the arguments.
  bool operator==(const Alias&) const = default;  ///< Member by member.
};

/// Where a node came from, for people.
struct Provenance {
  std::string module_path;  ///< "encoder.layer.0.attention"
  std::string source;       ///< "model.cpp:42" or a stack of such lines.
  std::int64_t sequence =
      -1;  ///< Autograd's number, equal on a forward node and the backward nodes it caused.

  bool operator==(const Provenance&) const = default;  ///< Member by member.
};

/// One operator call.
struct Node {
  std::string target;               ///< "aten.add.Tensor", or an operator of ours: "kiln.…".
  std::vector<Argument> arguments;  ///< All of the schema's, in its order, defaults spelled out.
  /// In the schema's order, tensor lists flattened; an invalid id is a result that is undefined.
  std::vector<ValueId> results;

  /// Types (and names) of arguments and results: "Tensor self,Scalar alpha->Tensor". Tells a
  /// Scalar from an int where the argument alone cannot. Empty if unknown.
  std::string signature = {};

  std::vector<std::uint32_t> mutates;  ///< Arguments whose memory is written (or whose geometry
                                       ///< changes, for in-place views).
  std::vector<Alias> aliases;          ///< Results that share memory with arguments.
  bool random = false;                 ///< Draws from a generator.
  bool effectful = false;      ///< Must run, once, in order, even if nothing uses its results.
  bool grad_mode = true;       ///< Grad mode when it ran.
  bool autocast = false;       ///< Autocast was on when it ran.
  bool backward = false;       ///< Recorded while gradients were being computed.
  Provenance provenance = {};  ///< Where it came from.
};

/// Where the value of an input comes from.
enum class InputKind { kUser, kParameter, kBuffer, kConstant, kTangent, kSeed, kSaved };
/// What an output is for.
enum class OutputKind { kUser, kMutation, kGradient, kSaved };

/// "user", "parameter", … as the text form writes them.
[[nodiscard]] std::string_view to_string(InputKind kind);
/// "user", "mutation", … as the text form writes them.
[[nodiscard]] std::string_view to_string(OutputKind kind);

/// An input of a graph.
struct Input {
  ValueId value;                      ///< What it is inside.
  InputKind kind = InputKind::kUser;  ///< Whose it is.
  std::string name = {};              ///< The user's: "fc1.weight". May be empty.

  bool operator==(const Input&) const = default;  ///< Member by member.
};

/// An output of a graph.
struct Output {
  ValueId value;                        ///< Invalid: None (an input without gradient).
  OutputKind kind = OutputKind::kUser;  ///< What it is for.
  /// For `kMutation` and `kGradient`: the position in `inputs()` of what is mutated or
  /// differentiated; in a backward graph, in the inputs of the joint graph.
  std::uint32_t input = 0;
  std::string name = {};  ///< The user's. May be empty.

  bool operator==(const Output&) const = default;  ///< Member by member.
};

/// A program: inputs, nodes in order, outputs.
class Graph {
 public:
  explicit Graph(std::string name = "graph") : name_(std::move(name)) {}  ///< An empty graph.

  /// Adds an input at the end of the list. An empty or taken value name is made unique.
  ValueId add_input(std::string value_name,
                    ValueMeta meta,
                    InputKind kind = InputKind::kUser,
                    std::string name = {});

  /// Adds `node` at the end; its results are made from `metas`, one each (nothing: an undefined
  /// tensor, which gets an invalid id), named `names` where given. `node.results` is overwritten.
  NodeId add_node(Node node,
                  std::vector<std::optional<ValueMeta>> metas,
                  std::span<const std::string> names = {});

  /// The common case: one tensor result.
  ValueId add_node(std::string target, std::vector<Argument> arguments, TensorMeta result);

  /// Calls `value` `name`, or something like it if that is taken.
  void rename(ValueId value, std::string name) {
    values_[value.index()].name = unique_name(std::move(name));
  }

  /// Adds an output at the end of the list.
  void add_output(Output output) { outputs_.push_back(std::move(output)); }

  /// Reserves memory for so many nodes and values in all; a matter of speed only.
  void reserve(std::size_t nodes, std::size_t values);

  /// Keeps `graph` for a node's `SubgraphRef` and returns its position.
  std::uint32_t add_subgraph(Graph graph);

  [[nodiscard]] const std::string& name() const { return name_; }  ///< What people call it.
  void set_name(std::string name) { name_ = std::move(name); }     ///< Calls it something else.

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }  ///< In program order.
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id.index()]; }  ///< One of them.
  [[nodiscard]] Node& node(NodeId id) { return nodes_[id.index()]; }  ///< The same, to be changed.
  /// Inputs and results, by `ValueId`.
  [[nodiscard]] std::span<const Value> values() const { return values_; }
  /// One of them.
  [[nodiscard]] const Value& value(ValueId id) const { return values_[id.index()]; }
  /// The same, to be changed.
  [[nodiscard]] Value& value(ValueId id) { return values_[id.index()]; }
  /// Of a value that is a tensor.
  [[nodiscard]] const TensorMeta& tensor(ValueId id) const { return value(id).tensor(); }
  [[nodiscard]] std::span<const Input> inputs() const { return inputs_; }  ///< In order.
  [[nodiscard]] std::vector<Input>& inputs() { return inputs_; }  ///< The same, to be changed.
  [[nodiscard]] std::span<const Output> outputs() const { return outputs_; }  ///< In order.
  [[nodiscard]] std::vector<Output>& outputs() { return outputs_; }  ///< The same, to be changed.
  /// What `SubgraphRef` names.
  [[nodiscard]] std::span<const Graph> subgraphs() const { return subgraphs_; }
  /// The same, to be changed.
  [[nodiscard]] std::vector<Graph>& subgraphs() { return subgraphs_; }

  /// Ranges of the symbols that sizes mention.
  [[nodiscard]] const Ranges& symbols() const { return symbols_; }
  [[nodiscard]] Ranges& symbols() { return symbols_; }  ///< The same, to be changed.
  /// What symbols were in the example that was traced, where that is known. They decide how fast a
  /// compiled graph is at which sizes, never what it computes; `SizeHints` (size_hints.hpp) reads
  /// them.
  [[nodiscard]] const Bindings& hints() const { return hints_; }
  [[nodiscard]] Bindings& hints() { return hints_; }  ///< The same, to be changed.
  /// What else must hold of them in each call.
  [[nodiscard]] const std::vector<Guard>& guards() const { return guards_; }
  [[nodiscard]] std::vector<Guard>& guards() { return guards_; }  ///< The same, to be changed.

  /// A storage id that no value has yet.
  [[nodiscard]] StorageId new_storage() { return StorageId(next_storage_++); }
  /// Keeps `new_storage()` from ever returning `id`.
  void reserve_storage(StorageId id);

 private:
  ValueId add_value(std::string name, ValueMeta meta, NodeId producer, std::uint32_t index);
  std::string unique_name(std::string name);

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Graph> subgraphs_;
  Ranges symbols_;
  Bindings hints_;
  std::vector<Guard> guards_;
  std::unordered_map<std::string, std::uint32_t> names_;  // Taken; the next suffix to try for each.
  std::uint32_t next_storage_ = 0;
};

/// Calls `visit(ValueId)` for every valid value in `argument`, in order.
template <class Visit>
void for_each_value(const Argument& argument, Visit&& visit) {
  if (const auto* value = std::get_if<ValueId>(&argument)) {
    if (value->valid()) {
      visit(*value);
    }
  } else if (const auto* values = std::get_if<std::vector<ValueId>>(&argument)) {
    for (const ValueId id : *values) {
      if (id.valid()) {
        visit(id);
      }
    }
  }
}

/// Calls `visit(ValueId)` for every valid value among `node`'s arguments, in order.
template <class Visit>
void for_each_operand(const Node& node, Visit&& visit) {
  for (const Argument& argument : node.arguments) {
    for_each_value(argument, visit);
  }
}

}  // namespace kiln::ir

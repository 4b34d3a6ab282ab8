#include "kiln/ir/verify.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/print.hpp"

namespace kiln::ir {
namespace {

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$";

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
}

/// What an expression reads as one symbol.
bool is_symbol(std::string_view text) {
  return is_name(text) && text.find_first_of(".$") == std::string_view::npos &&
         (text[0] < '0' || text[0] > '9');
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values().size(), false) {}

  void run() {
    check_names();
    check_inputs();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      check_node(NodeId(i));
    }
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      const ValueId id(i);
      require(defined_[i], "rule 2: %", graph_.value(id).name, " is neither an input nor a result");
      check_meta(id);
    }
    check_outputs();
    for (const Graph& subgraph : graph_.subgraphs()) {
      verify(subgraph);
    }
  }

 private:
  // Takes the parts of the message: nothing is concatenated while all is well.
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (!condition) {
      std::string message = "graph " + graph_.name() + " breaks ";
      ((message += parts), ...);
      throw Error(ErrorCode::kInvalidArgument, message);
    }
  }

  void require_of(NodeId id, bool condition, std::string_view rule) const {
    if (!condition) {
      // A node whose operands do not exist cannot be printed whole.
      bool printable = true;
      const auto check = [&](ValueId value) {
        printable &= value.index() < graph_.values().size();
      };
      for_each_operand(graph_.node(id), check);
      for (const ValueId result : graph_.node(id).results) {
        printable &= !result.valid() || result.index() < graph_.values().size();
      }
      require(false,
              rule,
              " at node ",
              std::to_string(id.index()),
              ": ",
              printable ? print_node(graph_, id) : graph_.node(id).target);
    }
  }

  void check_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(graph_.values().size());
    for (const auto& [symbol, range] : graph_.symbols()) {
      require(is_symbol(symbol), "rule 1: a symbol is named '", symbol, "'");
    }
    for (const auto& [symbol, size] : graph_.hints()) {
      require(graph_.symbols().contains(symbol),
              "rule 1: a hint is of '",
              symbol,
              "', which has no range");
    }
    for (const Guard& guard : graph_.guards()) {
      for (const Expr& side : {guard.left, guard.right}) {
        for (const std::string& symbol : side.symbols()) {
          require(graph_.symbols().contains(symbol),
                  "rule 1: a guard mentions '",
                  symbol,
                  "', which has no range");
        }
      }
    }
    for (const Node& node : graph_.nodes()) {
      require(is_name(node.target), "rule 1: an operator is named '", node.target, "'");
    }
    for (const Value& value : graph_.values()) {
      require(is_name(value.name), "rule 1: a value is named '", value.name, "'");
      require(names.insert(value.name).second, "rule 1: two values are named %", value.name);
    }
  }

  void check_inputs() {
    for (const Input& input : graph_.inputs()) {
      require(input.value.index() < graph_.values().size(), "rule 2: an input has no value");
      const Value& value = graph_.value(input.value);
      require(!value.producer.valid(), "rule 2: input %", value.name, " has a producer");
      require(!defined_[input.value.index()], "rule 2: %", value.name, " is an input twice");
      defined_[input.value.index()] = true;
    }
  }

  [[nodiscard]] bool holds_tensors(const Argument& argument) const {
    if (const auto* value = std::get_if<ValueId>(&argument)) {
      return value->valid() && graph_.value(*value).is_tensor();
    }
    const auto* values = std::get_if<std::vector<ValueId>>(&argument);
    if (values == nullptr) {
      return false;
    }
    for (const ValueId id : *values) {
      if (id.valid() && !graph_.value(id).is_tensor()) {
        return false;
      }
    }
    return true;
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    for_each_operand(node, [&](ValueId operand) {
      require_of(id,
                 operand.index() < graph_.values().size() && defined_[operand.index()],
                 "rule 3: an operand is not defined before its use");
    });
    for (const Argument& argument : node.arguments) {
      if (const auto* real = std::get_if<RealExpr>(&argument)) {
        require_of(id, !real->constant(), "rule 9: a number that depends on sizes is constant");
      }
      if (const auto* reference = std::get_if<SubgraphRef>(&argument)) {
        require_of(id,
                   reference->index < graph_.subgraphs().size(),
                   "rule 8: a nested graph does not exist");
      }
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      if (!result.valid()) {
        continue;
      }
      require_of(id, result.index() < graph_.values().size(), "rule 2: a result does not exist");
      const Value& value = graph_.value(result);
      require_of(id,
                 !defined_[result.index()] && value.producer == id && value.result_index == i,
                 "rule 2: a result belongs to another");
      defined_[result.index()] = true;
    }
    check_mutations(id);
    check_aliases(id);
  }

  void check_mutations(NodeId id) const {
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.mutates.size(); ++i) {
      bool repeated = false;
      for (std::size_t j = 0; j < i; ++j) {
        repeated |= node.mutates[j] == node.mutates[i];
      }
      require_of(id,
                 !repeated && node.mutates[i] < node.arguments.size() &&
                     holds_tensors(node.arguments[node.mutates[i]]),
                 "rule 5: mutates names no tensor argument, or one twice");
    }
  }

  void check_aliases(NodeId id) const {
    const Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.aliases.size(); ++i) {
      const Alias alias = node.aliases[i];
      require_of(id,
                 alias.result < node.results.size() && alias.argument < node.arguments.size() &&
                     holds_tensors(node.arguments[alias.argument]),
                 "rule 6: an alias names no result or no tensor argument");
      for (std::size_t j = 0; j < i; ++j) {
        require_of(id, node.aliases[j].result != alias.result, "rule 6: a result has two aliases");
      }
      const ValueId result = node.results[alias.result];
      const auto* argument = std::get_if<ValueId>(&node.arguments[alias.argument]);
      if (!result.valid() || argument == nullptr) {
        continue;
      }
      require_of(id, graph_.value(result).is_tensor(), "rule 6: an alias names no tensor result");
      const StorageId left = graph_.tensor(result).storage;
      const StorageId right = graph_.tensor(*argument).storage;
      require_of(id,
                 !left.valid() || !right.valid() || left == right,
                 "rule 6: an alias has another storage");
    }
  }

  void check_meta(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!value.is_tensor()) {
      return;
    }
    const TensorMeta& tensor = value.tensor();
    require(tensor.sizes.size() == tensor.strides.size(),
            "rule 4: %",
            value.name,
            " has not as many strides as sizes");
    for (const Expr& size : tensor.sizes) {
      require(size.constant().value_or(0) >= 0, "rule 4: %", value.name, " has a negative size");
    }
  }

  void check_outputs() const {
    std::vector<bool> mutated(graph_.inputs().size(), false);
    std::vector<bool> differentiated(graph_.inputs().size(), false);
    const bool backward = is_backward();
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Output& output = graph_.outputs()[i];
      const std::string which = std::to_string(i);
      require(!output.value.valid() || output.value.index() < graph_.values().size(),
              "rule 7: output ",
              which,
              " names a value that does not exist");
      if (output.kind == OutputKind::kMutation) {
        require(output.input < mutated.size(), "rule 7: output ", which, " mutates no input");
        require(output.value.valid() && !mutated[output.input],
                "rule 7: output ",
                which,
                " mutates an input to nothing, or again");
        mutated[output.input] = true;
      }
      if (output.kind == OutputKind::kGradient && !backward) {
        require(output.input < differentiated.size() && !differentiated[output.input],
                "rule 7: output ",
                which,
                " is the gradient of no input, or another one of the same");
        differentiated[output.input] = true;
      }
    }
  }

  /// Whether this is the backward graph of a partition.
  [[nodiscard]] bool is_backward() const {
    return std::all_of(graph_.inputs().begin(), graph_.inputs().end(), [](const Input& input) {
      return input.kind == InputKind::kSaved || input.kind == InputKind::kTangent ||
             input.kind == InputKind::kSeed;
    });
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

void verify_functional(const Graph& graph) {
  verify(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!graph.nodes()[i].mutates.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "graph " + graph.name() + " breaks rule 10: it is not functional at node " +
                      std::to_string(i) + ": " + print_node(graph, NodeId(i)));
    }
  }
  for (const Graph& subgraph : graph.subgraphs()) {
    verify_functional(subgraph);
  }
}

bool verifies_passes() {
#ifndef NDEBUG
  return true;
#else
  static const bool asked = [] {
    const char* value = std::getenv("KILN_VERIFY_PASSES");
    return value != nullptr && std::string_view(value) != "0";
  }();
  return asked;
#endif
}

void debug_verify(const Graph& graph) {
  if (verifies_passes()) {
    verify(graph);
  }
}

}  // namespace kiln::ir

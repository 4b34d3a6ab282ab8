#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "backend/cpu/passes/unfuse_bias.hpp"
#include "graph/arguments.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

namespace {

// What reads an element once, or keeps a row of them.
constexpr std::array<std::string_view, 8> kReaders = {"aten.add.Tensor",
                                                      "aten.gelu.default",
                                                      "aten.mul.Tensor",
                                                      "aten.native_layer_norm.default",
                                                      "aten.relu.default",
                                                      "aten.sigmoid.default",
                                                      "aten.silu.default",
                                                      "aten.tanh.default"};

class BiasUnfuser {
 public:
  BiasUnfuser(const ir::Graph& graph, const BiasTuning& tuning)
      : graph_(graph), tuning_(tuning), uses_(graph), rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      if (has_bias_for_a_kernel(graph_.node(id))) {
        split(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] bool has_bias_for_a_kernel(const ir::Node& node) const {
    if (node.target != "aten.addmm.default" || !is_one(node.arguments[3]) ||
        !is_one(node.arguments[4])) {
      return false;
    }
    const ir::TensorMeta& result = graph_.tensor(node.results[0]);
    const ir::TensorMeta& bias = graph_.tensor(operand(node, 0));
    const auto rows = result.sizes[0].constant(), columns = result.sizes[1].constant();
    return result.dtype == ir::DType::kFloat32 && bias.sizes.size() == 1 && rows && columns &&
           *rows >= tuning_.min_rows && 4 * *rows * *columns >= tuning_.min_bytes &&
           is_read_by_a_kernel(node.results[0]);
  }

  // Once, maybe through views.
  [[nodiscard]] bool is_read_by_a_kernel(ValueId value) const {
    while (!uses_.is_output(value) && uses_.of(value).size() == 1) {
      const ir::Node& reader = graph_.node(uses_.of(value)[0]);
      if (std::ranges::find(kReaders, reader.target) != kReaders.end()) {
        return true;
      }
      if (reader.aliases.empty() || reader.results.size() != 1) {
        return false;
      }
      value = reader.results[0];
    }
    return false;
  }

  void split(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const auto mapped = [&](std::size_t i) { return rewriter_.mapped(operand(node, i)); };
    const ValueId product =
        NodeWriter(rewriter_.graph(), node)
            .compute(
                "aten.mm.default", {mapped(1), mapped(2)}, graph_.tensor(node.results[0]).sizes);
    ir::Node sum = node;
    sum.target = "aten.add.Tensor";
    sum.signature = {};
    sum.arguments = {product, mapped(0), Expr(1)};
    rewriter_.replace(id, std::move(sum));
  }

  const ir::Graph& graph_;
  const BiasTuning& tuning_;
  const ir::Uses uses_;
  ir::Rewriter rewriter_;
};

}  // namespace

ir::Graph unfuse_biases(const ir::Graph& graph, const BiasTuning& tuning) {
  return BiasUnfuser(graph, tuning).run();
}

}  // namespace kiln::codegen

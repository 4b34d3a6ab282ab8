#include "backend/cuda/passes/convolution_epilogues.hpp"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "backend/cuda/passes/convolution.hpp"
#include "backend/cuda/target/tuning.hpp"
#include "graph/arguments.hpp"
#include "graph/node_writer.hpp"
#include "kiln/ir/rewrite.hpp"
#include "kiln/ir/uses.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;
using ir::NodeId;
using ir::ValueId;

constexpr const char* kReluSignature =
    "Tensor self,Tensor weight,Tensor? bias,int[] stride,int[] padding,int[] dilation,int "
    "groups->Tensor";
constexpr const char* kAddReluSignature =
    "Tensor self,Tensor weight,Tensor z,Scalar? alpha,Tensor? bias,int[] stride,int[] "
    "padding,int[] "
    "dilation,int groups->Tensor";

// relu(convolution), or relu(convolution + residual).
struct Epilogue {
  Convolution convolution;
  ValueId residual;  // Invalid if there is none.
  // The bias of the convolution that computes the residual, which this one adds for it.
  ValueId residual_bias;
};

class EpilogueFuser {
 public:
  explicit EpilogueFuser(const ir::Graph& graph) : graph_(graph), uses_(graph), rewriter_(graph) {}

  ir::Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      find_epilogue(NodeId(i));
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id(i);
      if (const auto epilogue = epilogues_.find(i); epilogue != epilogues_.end()) {
        fuse(id, epilogue->second);
      } else if (!fused_.contains(i) && !unfuse_bias(id)) {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  // What computes `value` for one reader alone.
  [[nodiscard]] NodeId only_producer(ValueId value) const {
    const bool one_use = value.valid() && uses_.of(value).size() == 1 && !uses_.is_output(value);
    return one_use ? graph_.value(value).producer : NodeId();
  }

  // The convolution that computes `value` for one reader alone, if cuDNN fuses such.
  [[nodiscard]] std::optional<Convolution> fusible(ValueId value) const {
    const NodeId producer = only_producer(value);
    if (!producer.valid()) {
      return std::nullopt;
    }
    std::optional<Convolution> found = find_convolution(graph_, graph_.node(producer));
    const bool possible = found && found->is_half && found->is_image && found->channels_last &&
                          found->groups == 1 && found->channels > 0 && found->filters > 0 &&
                          found->channels % kTuning.convolution.fused_channel_multiple == 0 &&
                          found->filters % kTuning.convolution.fused_channel_multiple == 0 &&
                          has_plain_bias(*found);
    return possible ? found : std::nullopt;
  }

  [[nodiscard]] bool has_plain_bias(const Convolution& convolution) const {
    if (!convolution.bias.valid()) {
      return false;
    }
    const ir::TensorMeta& bias = graph_.tensor(convolution.bias);
    return bias.sizes.size() == 1 && bias.strides[0] == Expr(1) &&
           bias.dtype == graph_.tensor(convolution.result).dtype;
  }

  void find_epilogue(NodeId id) {
    const ir::Node& relu = graph_.node(id);
    if (relu.target != "aten.relu.default") {
      return;
    }
    const ValueId input = operand(relu, 0);
    if (std::optional<Convolution> convolution = fusible(input)) {
      fused_.emplace(graph_.value(input).producer.index());
      epilogues_.emplace(id.index(), Epilogue{std::move(*convolution), {}, {}});
      return;
    }
    const NodeId sum = only_producer(input);
    if (!sum.valid() || graph_.node(sum).target != "aten.add.Tensor" ||
        !is_one(graph_.node(sum).arguments[2])) {
      return;
    }
    for (const std::size_t side : {0U, 1U}) {
      if (add_residual(
              id, sum, operand(graph_.node(sum), side), operand(graph_.node(sum), 1 - side))) {
        return;
      }
    }
  }

  bool add_residual(NodeId relu, NodeId sum, ValueId value, ValueId residual) {
    std::optional<Convolution> convolution = fusible(value);
    if (!convolution || !residual.valid() || residual == value) {
      return false;
    }
    const ir::TensorMeta& made = graph_.tensor(value);
    const ir::TensorMeta& added = graph_.tensor(residual);
    if (made.sizes != added.sizes || made.strides != added.strides || made.dtype != added.dtype) {
      return false;
    }
    Epilogue epilogue{std::move(*convolution), residual, {}};
    if (const std::optional<Convolution> other = fusible(residual)) {
      epilogue.residual_bias = other->bias;
      without_bias_.emplace(graph_.value(residual).producer.index());
    }
    fused_.emplace(graph_.value(value).producer.index());
    fused_.emplace(sum.index());
    epilogues_.emplace(relu.index(), std::move(epilogue));
    return true;
  }

  void fuse(NodeId id, const Epilogue& epilogue) {
    const Convolution& found = epilogue.convolution;
    ir::Node node = graph_.node(id);
    ValueId bias = rewriter_.mapped(found.bias);
    if (epilogue.residual_bias.valid()) {
      NodeWriter writer(rewriter_.graph(), node);
      bias = writer.compute("aten.add.Tensor",
                            {bias, rewriter_.mapped(epilogue.residual_bias), Expr(1)},
                            graph_.tensor(found.bias).sizes);
    }
    node.arguments = {rewriter_.mapped(found.input), rewriter_.mapped(found.weight)};
    node.target = "aten.cudnn_convolution_relu.default";
    node.signature = kReluSignature;
    if (epilogue.residual.valid()) {
      node.target = "aten.cudnn_convolution_add_relu.default";
      node.signature = kAddReluSignature;
      node.arguments.emplace_back(rewriter_.mapped(epilogue.residual));
      node.arguments.emplace_back(std::monostate());
    }
    node.arguments.emplace_back(bias);
    node.arguments.emplace_back(found.stride);
    node.arguments.emplace_back(found.padding);
    node.arguments.emplace_back(found.dilation);
    node.arguments.emplace_back(Expr(found.groups));
    rewriter_.replace(id, std::move(node));
  }

  // The convolution without its bias, and an addition that is fused with what reads it.
  bool unfuse_bias(NodeId id) {
    const std::optional<Convolution> found = find_convolution(graph_, graph_.node(id));
    if (!found || !has_plain_bias(*found)) {
      return false;
    }
    ir::Node convolution = graph_.node(id);
    for (ir::Argument& argument : convolution.arguments) {
      argument = rewriter_.mapped(argument);
    }
    convolution.arguments[2] = std::monostate();
    if (without_bias_.contains(id.index())) {
      rewriter_.replace(id, std::move(convolution));
      return true;
    }
    const ir::TensorMeta& meta = graph_.tensor(found->result);
    NodeWriter writer(rewriter_.graph(), convolution);
    const ValueId product = writer.compute_laid_out(convolution.target,
                                                    std::move(convolution.arguments),
                                                    meta.sizes,
                                                    meta.strides,
                                                    graph_.node(id).signature);
    const ValueId bias = rewriter_.mapped(found->bias);
    std::vector<Expr> column(meta.sizes.size() - 1, Expr(1));
    column[0] = meta.sizes[1];
    const std::vector<Expr> strides = ir::contiguous_strides(column);
    const ValueId viewed = writer.view("aten.view.default", {bias, column}, column, strides);
    ir::Node sum = graph_.node(id);
    sum.target = "aten.add.Tensor";
    sum.signature = "";
    sum.arguments = {product, viewed, Expr(1)};
    rewriter_.replace(id, std::move(sum));
    return true;
  }

  const ir::Graph& graph_;
  ir::Uses uses_;
  ir::Rewriter rewriter_;
  // By the position of a node.
  std::unordered_map<std::size_t, Epilogue> epilogues_;  // The ReLUs that are fused.
  std::unordered_set<std::size_t> fused_;                // What they compute as well.
  std::unordered_set<std::size_t> without_bias_;         // Convolutions whose bias is added later.
};

}  // namespace

ir::Graph fuse_convolution_epilogues(const ir::Graph& graph) {
  return EpilogueFuser(graph).run();
}

}  // namespace kiln::codegen::cuda

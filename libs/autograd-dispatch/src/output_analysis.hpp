// Where the outputs of a traced function come from, read from the tensors it returned.

#pragma once

#include <optional>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

class OutputAnalysis {
 public:
  /// `arguments` are the shadows as the function left them, captured tensors behind; `originals`
  /// what they were before, detached; `inputs` the graph inputs.
  OutputAnalysis(Tensors arguments, Tensors originals, Tensors inputs, Tensors outputs);

  /// Treats the memory that argument `argument` has come to lie on as a further output, and returns
  /// its position. If it shares memory with an argument, it is to be made from that as it was
  /// before the call.
  std::uint32_t add_memory_of(std::uint32_t argument);

  /// Makes `tensor` a result of the graph and returns its position.
  std::uint32_t add_computed(const at::Tensor& tensor);

  /// Looks at every output. Throws `Error` with `kUnsupported` where memory is shared in a way that
  /// cannot be had again.
  void run();

  /// Results of the graph: outputs, and tensors that outputs are views of.
  [[nodiscard]] const Tensors& computed() const { return computed_; }
  /// Whether the result is a leaf that the function made and returned: its caller's to
  /// differentiate.
  [[nodiscard]] bool is_new_leaf(std::uint32_t result) const;
  /// Outputs that share memory with others and have a gradient of their own. Their plans say
  /// `kComputed` with an index that counts on from the results of the graph.
  struct NodeAlias {
    at::Tensor tensor;
    OutputPlan plan;
  };
  [[nodiscard]] const std::vector<NodeAlias>& node_aliases() const { return node_aliases_; }

  /// The outputs' plans, once the values of a recorded graph are known: `values[0]` for the
  /// arguments, `values[1]` for the results, `values[2]` for the outputs, in the order of the lists
  /// given and returned here.
  [[nodiscard]] std::vector<OutputPlan> plans(
      const ir::Graph& graph, const std::vector<std::vector<ir::ValueId>>& values) const;

  [[nodiscard]] const Tensors& arguments() const { return arguments_; }
  [[nodiscard]] const Tensors& outputs() const { return outputs_; }

 private:
  struct Found {
    OutputPlan plan;
    std::vector<std::uint32_t> candidates;  // For aliases of arguments.
    bool in_node = false;                   // Its index counts node aliases.
  };

  Found look_at(std::uint32_t position);
  std::optional<Found> among_arguments(const at::Tensor& output);
  std::optional<Found> among_originals(const at::Tensor& output);
  std::optional<Found> among_outputs(std::uint32_t position);
  Found in_node(const at::Tensor& output,
                bool view_of_base,
                OutputPlan::Kind kind,
                std::uint32_t index);
  void require_only_view(const at::Tensor& output) const;
  [[nodiscard]] at::Tensor owner_of(const at::Tensor& output) const;

  Tensors arguments_, originals_, inputs_, outputs_;
  std::size_t returned_;  // Outputs before this are the function's own.
  Tensors computed_;
  std::vector<NodeAlias> node_aliases_;
  std::vector<Found> found_;
};

}  // namespace kiln::autograd_dispatch

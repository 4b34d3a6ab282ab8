#include "reachability.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace kiln::autograd_dispatch {

std::vector<std::vector<std::uint32_t>> reached_by(const Tensors& results, const Tensors& targets) {
  using torch::autograd::Edge;
  using torch::autograd::Node;
  std::vector<Edge> ends;
  for (const at::Tensor& target : targets) {
    ends.push_back(torch::autograd::impl::gradient_edge(target));
  }
  std::vector<std::vector<std::uint32_t>> reached(targets.size());
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    std::unordered_set<Edge> seen;
    std::vector<Edge> open = {torch::autograd::impl::gradient_edge(results[i])};
    while (!open.empty()) {
      const Edge edge = open.back();
      open.pop_back();
      if (!edge.function || !seen.insert(edge).second) {
        continue;
      }
      for (const Edge& next : edge.function->next_edges()) {
        open.push_back(next);
      }
    }
    for (std::size_t j = 0; j < ends.size(); ++j) {
      if (seen.contains(ends[j])) {
        reached[j].push_back(i);
      }
    }
  }
  return reached;
}

}  // namespace kiln::autograd_dispatch

#include "kiln/partitioner/memory.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "joint.hpp"

namespace kiln::partitioner {
namespace {

class Simulation {
 public:
  Simulation(const ir::Graph& graph, const CostModel& cost)
      : graph_(graph), cost_(cost), base_(memory_bases(graph)), size_(graph.values().size()) {
    last_use_.assign(graph.values().size(), -1);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      ir::for_each_operand(graph.node(ir::NodeId(i)), [&](ir::ValueId operand) {
        last_use_[base_[operand.index()].index()] = static_cast<std::ptrdiff_t>(i);
      });
    }
    for (const ir::Output& output : graph.outputs()) {
      if (output.value.valid()) {
        last_use_[base(output.value).index()] = static_cast<std::ptrdiff_t>(graph.nodes().size());
      }
    }
  }

  [[nodiscard]] ir::ValueId base(ir::ValueId value) const { return base_[value.index()]; }

  [[nodiscard]] std::ptrdiff_t last_use(ir::ValueId value) const {
    return last_use_[base(value).index()];
  }

  // Memory that is there before the first node.
  void hold(ir::ValueId value, double bytes) {
    size_[base(value).index()] = bytes;
    now_ += bytes;
  }

  double peak() {
    double peak = now_;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const ir::Node& node = graph_.node(ir::NodeId(i));
      std::vector<ir::ValueId> touched;
      for (const ir::ValueId result : node.results) {
        if (result.valid() && graph_.value(result).is_tensor()) {
          if (base(result) == result) {
            size_[result.index()] = cost_.bytes(graph_, result);
            now_ += size_[result.index()];
          }
          touched.push_back(base(result));
        }
      }
      peak = std::max(peak, now_);
      ir::for_each_operand(node, [&](ir::ValueId operand) { touched.push_back(base(operand)); });
      for (const ir::ValueId value : touched) {
        if (last_use_[value.index()] <= static_cast<std::ptrdiff_t>(i)) {
          now_ -= size_[value.index()];
          size_[value.index()] = 0;
        }
      }
    }
    return peak;
  }

 private:
  const ir::Graph& graph_;
  const CostModel& cost_;
  std::vector<ir::ValueId> base_;
  std::vector<double> size_;              // By value: bytes it holds now.
  std::vector<std::ptrdiff_t> last_use_;  // By base.
  double now_ = 0;
};

}  // namespace

MemoryProfile simulate_memory(const Partition& partition, const CostModel& cost) {
  Simulation forward(partition.forward, cost);
  Simulation backward(partition.backward, cost);
  MemoryProfile profile;

  // Saved tensors are in the same order on both sides; several may look at the same memory, which
  // is then held by the one that is used last.
  std::vector<ir::ValueId> made;
  for (const ir::Output& output : partition.forward.outputs()) {
    if (output.kind == ir::OutputKind::kSaved &&
        partition.forward.value(output.value).is_tensor()) {
      made.push_back(output.value);
    }
  }
  std::map<ir::ValueId, ir::ValueId> holders;  // Memory of the forward -> input of the backward.
  std::size_t position = 0;
  for (const ir::Input& input : partition.backward.inputs()) {
    if (input.kind != ir::InputKind::kSaved || !partition.backward.value(input.value).is_tensor()) {
      continue;
    }
    const ir::ValueId base = forward.base(made[position++]);
    if (!partition.forward.value(base).producer.valid()) {
      continue;
    }
    const auto [holder, is_new] = holders.emplace(base, input.value);
    if (!is_new && backward.last_use(input.value) > backward.last_use(holder->second)) {
      holder->second = input.value;
    }
  }
  for (const auto& [base, input] : holders) {
    const double bytes = cost.bytes(partition.forward, base);
    profile.saved += bytes;
    backward.hold(input, bytes);
  }
  profile.forward_peak = forward.peak();
  profile.backward_peak = backward.peak();
  return profile;
}

}  // namespace kiln::partitioner

#include "forward_backward_plan.hpp"

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/memory.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::autograd_dispatch {
namespace {

// Positions of saved outputs of `forward` that share memory with values of `others`: they count
// writes together.
std::vector<SharedSave> saved_sharing(const ir::Graph& forward,
                                      const std::vector<ir::ValueId>& others) {
  const std::vector<std::uint32_t> memories = ir::memory_ids(forward);
  std::vector<SharedSave> shared;
  std::uint32_t saved = 0;
  for (const ir::Output& output : forward.outputs()) {
    if (output.kind != ir::OutputKind::kSaved) {
      continue;
    }
    for (std::uint32_t i = 0; i < others.size(); ++i) {
      if (others[i].valid() && memories[others[i].index()] == memories[output.value.index()]) {
        shared.push_back({.saved = saved, .other = i});
      }
    }
    ++saved;
  }
  return shared;
}

// Whether the backward gets a floating-point tensor that was computed from what is differentiated.
bool saves_differentiated(const Plan& plan,
                          const ForwardBackwardPlan& made,
                          const ir::Graph& forward) {
  std::vector<bool> depends(forward.values().size(), false);
  for (std::size_t i = 0; i < plan.gradients.size(); ++i) {
    depends[forward.inputs()[plan.gradients[i]].value.index()] = made.has_gradient[i];
  }
  const auto is_real = [&](ir::ValueId value) {
    return value.valid() && forward.value(value).is_tensor() &&
           (ir::is_floating_point(forward.tensor(value).dtype) ||
            ir::is_complex(forward.tensor(value).dtype));
  };
  for (const ir::Node& node : forward.nodes()) {
    bool any = false;
    ir::for_each_operand(node, [&](ir::ValueId operand) { any = any || depends[operand.index()]; });
    for (const ir::ValueId result : node.results) {
      if (is_real(result)) {
        depends[result.index()] = any;
      }
    }
  }
  return std::ranges::any_of(forward.outputs(), [&](const ir::Output& output) {
    return output.kind == ir::OutputKind::kSaved && depends[output.value.index()];
  });
}

}  // namespace

void drop_saved_integers(ir::Graph& forward) {
  const std::size_t dropped = std::erase_if(forward.outputs(), [&](const ir::Output& output) {
    return output.kind == ir::OutputKind::kSaved && !forward.value(output.value).is_tensor();
  });
  if (dropped != 0) {
    forward = ir::remove_dead_code(forward);
  }
}

ForwardBackwardPlan plan_forward_backward(const Plan& plan,
                                          const ir::Graph& forward,
                                          const ir::Graph& backward) {
  ForwardBackwardPlan result;
  std::vector<ir::ValueId> inputs, results;
  for (const ir::Input& input : forward.inputs()) {
    inputs.push_back(input.value);
  }
  for (const ir::Output& output : forward.outputs()) {
    if (output.kind == ir::OutputKind::kUser) {
      results.push_back(output.value);
    } else if (output.kind == ir::OutputKind::kSaved) {
      ++result.saved;
    }
  }
  result.saved_on_input = saved_sharing(forward, inputs);
  result.saved_on_result = saved_sharing(forward, results);

  for (const ir::Input& input : backward.inputs().last(plan.tangents.size())) {
    const ir::TensorMeta& meta = backward.tensor(input.value);
    result.tangents.push_back(
        {.sizes = meta.sizes, .strides = meta.strides, .dtype = meta.dtype, .device = meta.device});
  }
  for (const ir::Input& input : backward.inputs()) {
    if (!backward.value(input.value).is_tensor()) {
      result.saved_sizes.push_back(std::get<ir::SymIntMeta>(backward.value(input.value).meta).expr);
    }
  }
  result.symbols = ir::find_symbol_sources(forward);
  for (std::size_t i = 0; i < plan.gradients.size(); ++i) {
    result.has_gradient.push_back(backward.outputs()[i].value.valid());
  }
  result.saves_differentiated = saves_differentiated(plan, result, forward);
  return result;
}

}  // namespace kiln::autograd_dispatch

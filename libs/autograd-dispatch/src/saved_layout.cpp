#include "saved_layout.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "read_symbols.hpp"

namespace kiln::autograd_dispatch {
namespace {

struct SavedLayout {
  std::size_t result = 0;
  std::vector<ir::Expr> strides;
  std::vector<std::int64_t> fixed;  // The same, where no size varies.
};

std::vector<SavedLayout> saved_layouts(const ir::Graph& forward) {
  std::vector<SavedLayout> layouts;
  std::size_t result = 0;
  for (const ir::Output& output : forward.outputs()) {
    if (output.kind == ir::OutputKind::kSaved && forward.value(output.value).is_tensor()) {
      SavedLayout layout{
          .result = result, .strides = forward.tensor(output.value).strides, .fixed = {}};
      if (std::ranges::all_of(layout.strides, &ir::Expr::is_constant)) {
        layout.fixed = evaluate_all(std::exchange(layout.strides, {}), {});
      }
      layouts.push_back(std::move(layout));
    }
    result += output.kind != ir::OutputKind::kMutation ? 1 : 0;
  }
  return layouts;
}

bool has_strides(const at::Tensor& tensor, const std::vector<std::int64_t>& strides) {
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i);
    if (tensor.size(dimension) > 1 && tensor.stride(dimension) != strides[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

CompiledGraph saving_as_traced(CompiledGraph compiled, const ir::Graph& forward) {
  std::vector<SavedLayout> layouts = saved_layouts(forward);
  if (layouts.empty()) {
    return compiled;
  }
  return [run = std::move(compiled),
          layouts = std::move(layouts),
          sources = ir::find_symbol_sources(forward)](Tensors inputs) {
    const ir::Bindings symbols = read_symbols(sources, inputs);
    Tensors results = run(std::move(inputs));
    for (const SavedLayout& layout : layouts) {
      at::Tensor& saved = results[layout.result];
      if (!saved.defined() || saved.numel() == 0) {
        continue;
      }
      const std::vector<std::int64_t> evaluated = evaluate_all(layout.strides, symbols);
      const std::vector<std::int64_t>& strides = layout.strides.empty() ? layout.fixed : evaluated;
      if (!has_strides(saved, strides)) {
        const at::NoGradGuard no_grad;
        at::Tensor copy = at::empty_strided(saved.sizes(), strides, saved.options());
        saved = copy.copy_(saved);
      }
    }
    return results;
  };
}

}  // namespace kiln::autograd_dispatch

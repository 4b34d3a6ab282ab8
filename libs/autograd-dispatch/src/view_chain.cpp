#include "view_chain.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "kiln/base/error.hpp"
#include "read_symbols.hpp"
#include "relations.hpp"

namespace kiln::autograd_dispatch {
namespace {

// Position of the argument that result `result` of `node` is a view of.
std::optional<std::uint32_t> viewed_argument(const ir::Node& node, std::uint32_t result) {
  for (const ir::Alias& alias : node.aliases) {
    if (alias.result == result) {
      return alias.argument;
    }
  }
  return std::nullopt;
}

// The dimensions of `tensor`, innermost first, merged where possible: a dense tensor has one.
struct MergedDim {
  std::int64_t stride = 1, size = 1;
};
std::vector<MergedDim> merged_dims(const at::Tensor& tensor) {
  std::vector<MergedDim> dims;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    dims.push_back({.stride = tensor.stride(d), .size = tensor.size(d)});
  }
  std::erase_if(dims, [](const MergedDim& dim) { return dim.size == 1; });
  std::ranges::sort(dims, {}, &MergedDim::stride);
  std::vector<MergedDim> merged;
  for (const MergedDim& dim : dims) {
    if (!merged.empty() && dim.stride == merged.back().stride * merged.back().size) {
      merged.back().size *= dim.size;
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

// Whether all elements of `window`, whose offset counts from the first element of `tensor`, are
// elements of `tensor`. False if that is not certain.
bool shows_elements_of(const at::Tensor& tensor, const Geometry& window) {
  if (std::ranges::find(window.sizes, 0) != window.sizes.end()) {
    return true;
  }
  const std::vector<MergedDim> dims = merged_dims(tensor);
  std::vector<std::int64_t> last(dims.size(), 0);  // The largest index that the window has.
  // A distance within inner dimensions is less than the stride of the next outer one.
  const auto advance = [&](std::int64_t distance, std::int64_t steps) {
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (dims[d].stride != 0) {
        last[d] += distance / dims[d].stride * steps;
        distance %= dims[d].stride;
      }
    }
    return distance == 0;
  };
  bool is_inside = window.offset >= 0 && advance(window.offset, 1);
  for (std::size_t d = 0; d < window.sizes.size(); ++d) {
    is_inside =
        is_inside && (window.sizes[d] == 1 || advance(window.strides[d], window.sizes[d] - 1));
  }
  return is_inside && std::ranges::equal(last, dims, [](std::int64_t index, const MergedDim& dim) {
           return index < dim.size;
         });
}

// The tensor to take the window of: `tensor` if it has all of its elements, so that the result
// depends on it in autograd, else its base. The derivative of as_strided drops elements that its
// source does not have.
at::Tensor source_of(const at::Tensor& tensor, const Geometry& window) {
  const Link link = link_of(tensor);
  if ((link != Link::kView && link != Link::kOneOfSeveral) || shows_elements_of(tensor, window)) {
    return tensor;
  }
  const at::Tensor base = base_of(tensor);
  return base.scalar_type() == tensor.scalar_type() ? base : tensor;
}

bool is_replayed(const ViewPlan& plan) {
  return plan.views && !plan.views->nodes().empty();
}

bool is_fixed(const Window& window) {
  return std::ranges::all_of(window.sizes, &ir::Expr::is_constant) &&
         std::ranges::all_of(window.strides, &ir::Expr::is_constant) && window.offset.is_constant();
}

}  // namespace

std::optional<ir::Graph> view_chain(const ir::Graph& graph, ir::ValueId from, ir::ValueId to) {
  std::vector<ir::ValueId> steps;
  while (to != from) {
    const ir::Value& value = graph.value(to);
    if (!value.producer.valid()) {
      return std::nullopt;
    }
    const ir::Node& node = graph.node(value.producer);
    const auto argument = viewed_argument(node, value.result_index);
    const auto* viewed = argument ? std::get_if<ir::ValueId>(&node.arguments[*argument]) : nullptr;
    if (!node.mutates.empty() || viewed == nullptr) {
      return std::nullopt;
    }
    steps.push_back(to);
    to = *viewed;
  }
  std::reverse(steps.begin(), steps.end());

  ir::Graph chain("views");
  ir::ValueId last = chain.add_input("base", graph.value(from).meta);
  for (const ir::ValueId step : steps) {
    const ir::Value& value = graph.value(step);
    const ir::Node& node = graph.node(value.producer);
    ir::Node copy = node;
    // A plan is the same in every process: autograd's numbers count what happened before.
    copy.provenance.sequence = -1;
    copy.arguments[*viewed_argument(node, value.result_index)] = last;
    std::vector<std::optional<ir::ValueMeta>> metas;
    for (const ir::ValueId result : node.results) {
      metas.push_back(result.valid() ? std::optional(graph.value(result).meta) : std::nullopt);
    }
    const ir::NodeId added = chain.add_node(std::move(copy), std::move(metas));
    last = chain.node(added).results[value.result_index];
  }
  chain.add_output({.value = last});
  return chain;
}

void require_replayable(const ViewPlan& plan, const at::Tensor& base, const at::Tensor& wanted) {
  if (is_replayed(plan)) {
    return;
  }
  if (base.layout() != c10::kStrided || base.scalar_type() != wanted.scalar_type() ||
      base.is_conj() != wanted.is_conj() || base.is_neg() != wanted.is_neg()) {
    throw Error(ErrorCode::kUnsupported,
                "an output shares memory with another tensor as another type, and the views that "
                "led to it are not known");
  }
}

bool reads_symbols(const ViewPlan& plan) {
  return !is_replayed(plan) && !is_fixed(plan.window);
}

ViewMaker::ViewMaker(const ViewPlan& plan) : history_(plan.history), window_(plan.window) {
  if (is_replayed(plan)) {
    views_.emplace(*plan.views);
  } else if (is_fixed(window_)) {
    fixed_ = geometry_in({});
  }
}

Geometry ViewMaker::geometry_in(const ir::Bindings& symbols) const {
  return {.sizes = evaluate_all(window_.sizes, symbols),
          .strides = evaluate_all(window_.strides, symbols),
          .offset = window_.offset.evaluate(symbols)};
}

at::Tensor ViewMaker::make(const at::Tensor& base, const ir::Bindings& symbols) const {
  // A function that is called with grad mode off may have switched it on.
  const bool is_followed = c10::GradMode::is_enabled() || base.requires_grad();
  const at::AutoGradMode mode(history_ == ViewPlan::History::kView && is_followed);
  const bool detached = history_ == ViewPlan::History::kDetached;
  const at::Tensor from = detached ? base.detach() : base;
  at::Tensor made;
  if (views_) {
    made = views_->run({from})[0];
  } else {
    std::optional<Geometry> found;
    const Geometry& geometry = fixed_ ? *fixed_ : found.emplace(geometry_in(symbols));
    if (from.sizes() == geometry.sizes && from.strides() == geometry.strides &&
        geometry.offset == 0) {
      // The same window: one more name for it.
      made = detached ? from : from.view(geometry.sizes);
    } else {
      made = source_of(from, geometry)
                 .as_strided(
                     geometry.sizes, geometry.strides, from.storage_offset() + geometry.offset);
    }
  }
  // What a chain makes of a detached base is a view of that, which nobody else knows.
  return detached && made.is_view() ? made.detach() : made;
}

}  // namespace kiln::autograd_dispatch

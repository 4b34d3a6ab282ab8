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

// What has all elements that a window on the memory of `tensor` may show. The derivative of
// as_strided drops the others.
at::Tensor covering(const at::Tensor& tensor) {
  const at::Tensor base = base_of(tensor);
  const Link link = link_of(tensor);
  const bool is_derived = link == Link::kView || link == Link::kOneOfSeveral;
  return is_derived && base.scalar_type() == tensor.scalar_type() ? base : tensor;
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
      made = covering(from).as_strided(
          geometry.sizes, geometry.strides, from.storage_offset() + geometry.offset);
    }
  }
  // What a chain makes of a detached base is a view of that, which nobody else knows.
  return detached && made.is_view() ? made.detach() : made;
}

}  // namespace kiln::autograd_dispatch

#include "output_analysis.hpp"

#include <algorithm>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "relations.hpp"
#include "view_chain.hpp"

namespace kiln::autograd_dispatch {
namespace {

using Kind = OutputPlan::Kind;
using History = ViewPlan::History;

std::optional<std::uint32_t> position_of(const at::Tensor& tensor, const Tensors& among) {
  for (std::uint32_t i = 0; i < among.size(); ++i) {
    if (among[i].defined() && among[i].is_same(tensor)) {
      return i;
    }
  }
  return std::nullopt;
}

// Whether autograd reached `tensor` by more than the views that lead to it.
bool has_own_gradient(const at::Tensor& tensor, bool view_of_base) {
  const Link link = link_of(tensor);
  return tensor.requires_grad() && !tensor.is_leaf() &&
         !(view_of_base && link != Link::kNone && link != Link::kCustomFunction);
}

History history_of(const at::Tensor& tensor, bool view_of_base) {
  const Link link = link_of(tensor);
  if (!view_of_base || link == Link::kNone) {
    return History::kDetached;
  }
  return link == Link::kNoGrad || link == Link::kCustomFunction ? History::kNoGrad : History::kView;
}

}  // namespace

OutputAnalysis::OutputAnalysis(Tensors arguments,
                               Tensors originals,
                               Tensors inputs,
                               Tensors outputs)
    : arguments_(std::move(arguments)),
      originals_(std::move(originals)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      returned_(outputs_.size()) {}

std::uint32_t OutputAnalysis::add_memory_of(std::uint32_t argument) {
  const capture::PauseRecording unrecorded;
  outputs_.push_back(arguments_[argument].detach());
  return static_cast<std::uint32_t>(outputs_.size() - 1);
}

std::uint32_t OutputAnalysis::add_computed(const at::Tensor& tensor) {
  if (const auto known = position_of(tensor, computed_)) {
    return *known;
  }
  computed_.push_back(tensor);
  return static_cast<std::uint32_t>(computed_.size() - 1);
}

bool OutputAnalysis::is_new_leaf(std::uint32_t result) const {
  return computed_[result].is_leaf() && position_of(computed_[result], outputs_).has_value();
}

void OutputAnalysis::run() {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    found_.push_back(look_at(i));
    found_.back().plan.requires_grad = outputs_[i].defined() && outputs_[i].requires_grad();
  }
}

OutputAnalysis::Found OutputAnalysis::look_at(std::uint32_t position) {
  const at::Tensor& output = outputs_[position];
  if (!output.defined()) {
    return {.plan = {.kind = Kind::kNone}, .candidates = {}};
  }
  if (const auto same = position_of(output, arguments_)) {
    return {.plan = {.kind = Kind::kArgument, .index = *same}, .candidates = {}};
  }
  if (const auto same = position_of(output, outputs_); *same != position) {
    return {.plan = {.kind = Kind::kSameAs, .index = *same}, .candidates = {}};
  }
  // A view of another output is remade from that one, wherever it comes from itself.
  const auto base = position_of(base_of(output), outputs_);
  if (base && *base != position && link_of(output) != Link::kCustomFunction) {
    return {.plan = {.kind = Kind::kAliasOfOutput,
                     .index = *base,
                     .view = {.history = history_of(output, true)}},
            .candidates = {}};
  }
  if (auto found = position < returned_ ? among_arguments(output) : among_originals(output)) {
    return *found;
  }
  if (auto found = among_outputs(position)) {
    return *found;
  }
  return {.plan = {.kind = Kind::kComputed, .index = add_computed(output)}, .candidates = {}};
}

OutputAnalysis::Found OutputAnalysis::in_node(const at::Tensor& output,
                                              bool view_of_base,
                                              Kind kind,
                                              std::uint32_t index) {
  const at::Tensor& base = kind == Kind::kAliasOfArgument ? inputs_[index] : computed_[index];
  node_aliases_.push_back(
      {output,
       {.kind = kind,
        .index = index,
        .requires_grad = true,
        .view = {.history = view_of_base ? History::kNoGrad : History::kDetached,
                 .window = window_of(output, base.storage_offset())}}});
  require_replayable(node_aliases_.back().plan.view, base, output);
  const auto position = static_cast<std::uint32_t>(node_aliases_.size() - 1);
  return {.plan = {.kind = Kind::kComputed, .index = position}, .candidates = {}, .in_node = true};
}

std::optional<OutputAnalysis::Found> OutputAnalysis::among_originals(const at::Tensor& output) {
  for (std::uint32_t i = 0; i < originals_.size(); ++i) {
    if (share_storage(originals_[i], output)) {
      return Found{.plan = {.kind = Kind::kAliasOfArgument,
                            .index = i,
                            .view = {.history = History::kDetached}},
                   .candidates = {}};
    }
  }
  return std::nullopt;
}

std::optional<OutputAnalysis::Found> OutputAnalysis::among_arguments(const at::Tensor& output) {
  const at::Tensor base = base_of(output);
  std::vector<std::uint32_t> sharing, related;
  for (std::uint32_t i = 0; i < arguments_.size(); ++i) {
    if (share_storage(arguments_[i], output)) {
      sharing.push_back(i);
      if (output.is_view() && base_of(arguments_[i]).is_same(base)) {
        related.push_back(i);
      }
    }
  }
  if (sharing.empty()) {
    if (among_originals(output)) {
      throw Error(ErrorCode::kUnsupported,
                  "an output is a view of an argument's memory, but the argument was set_ to other "
                  "memory");
    }
    return std::nullopt;
  }
  const bool view_of_base = !related.empty();
  const std::vector<std::uint32_t>& candidates = view_of_base ? related : sharing;
  if (has_own_gradient(output, view_of_base)) {
    if (!view_of_base) {
      require_only_view(output);
    }
    for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
      if (share_storage(inputs_[i], output)) {
        return in_node(output, view_of_base, Kind::kAliasOfArgument, i);
      }
    }
  }
  OutputPlan plan{.kind = Kind::kAliasOfArgument, .index = candidates.front()};
  plan.view.history = history_of(output, view_of_base);
  return Found{.plan = std::move(plan), .candidates = candidates};
}

// Of several tensors on one storage that autograd knows nothing in common of (a result and what was
// detached from it): the one that is computed.
at::Tensor OutputAnalysis::owner_of(const at::Tensor& output) const {
  at::Tensor owner;
  for (const at::Tensor& other : outputs_) {
    const at::Tensor base = other.defined() ? base_of(other) : other;
    if (share_storage(other, output) &&
        (!owner.defined() || (base.requires_grad() && !owner.requires_grad()))) {
      owner = base;
    }
  }
  return owner;
}

std::optional<OutputAnalysis::Found> OutputAnalysis::among_outputs(std::uint32_t position) {
  const at::Tensor& output = outputs_[position];
  const bool shared = std::any_of(outputs_.begin(), outputs_.end(), [&](const at::Tensor& other) {
    return !other.is_same(output) && share_storage(other, output);
  });
  if (!shared && link_of(output) != Link::kOneOfSeveral) {
    return std::nullopt;
  }
  const at::Tensor owner = owner_of(output);
  if (owner.is_same(output)) {
    return std::nullopt;
  }
  const bool view_of_base = output.is_view() && base_of(output).is_same(owner);
  const std::uint32_t result = add_computed(owner);
  if (has_own_gradient(output, view_of_base)) {
    return in_node(output, view_of_base, Kind::kAliasOfComputed, result);
  }
  if (!view_of_base) {
    require_only_view(output);
  }
  return Found{.plan = {.kind = Kind::kAliasOfComputed,
                        .index = result,
                        .view = {.history = history_of(output, view_of_base)}},
               .candidates = {}};
}

// That two outputs are views of one tensor can be had again only if that tensor is there.
void OutputAnalysis::require_only_view(const at::Tensor& output) const {
  const auto same_base = [&](const at::Tensor& other) {
    return other.defined() && !other.is_same(output) && base_of(other).is_same(base_of(output));
  };
  if (output.is_view() && std::any_of(outputs_.begin(), outputs_.end(), same_base)) {
    throw Error(ErrorCode::kUnsupported,
                "output " + std::to_string(position_of(output, outputs_).value()) +
                    " and another one are views of a detached tensor that is not returned");
  }
}

std::vector<OutputPlan> OutputAnalysis::plans(
    const ir::Graph& graph, const std::vector<std::vector<ir::ValueId>>& values) const {
  std::vector<OutputPlan> plans;
  for (std::uint32_t i = 0; i < found_.size(); ++i) {
    OutputPlan plan = found_[i].plan;
    if (found_[i].in_node) {
      plan.index += static_cast<std::uint32_t>(computed_.size());
    }
    if (plan.is_alias()) {
      const bool argument = plan.kind == Kind::kAliasOfArgument;
      const std::size_t list = argument ? 0 : plan.kind == Kind::kAliasOfComputed ? 1 : 2;
      const Tensors& bases = argument    ? (i < returned_ ? arguments_ : originals_)
                             : list == 1 ? computed_
                                         : outputs_;
      std::vector<std::uint32_t> candidates = found_[i].candidates;
      if (candidates.empty()) {
        candidates.push_back(plan.index);
      }
      for (const std::uint32_t candidate : candidates) {
        if (argument && i >= returned_) {
          break;  // Made from the argument as it was, which the graph's last value for it is not.
        }
        auto chain = view_chain(graph, values[list][candidate], values[2][i]);
        if (chain &&
            (!plan.view.views || chain->nodes().size() < plan.view.views->nodes().size())) {
          plan.index = candidate;
          plan.view.views = std::move(chain);
        }
      }
      plan.view.window = window_of(outputs_[i], bases[plan.index].storage_offset());
      require_replayable(plan.view, bases[plan.index], outputs_[i]);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace kiln::autograd_dispatch

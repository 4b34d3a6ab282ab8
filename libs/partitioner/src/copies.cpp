#include "copies.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::partitioner {
namespace {

using Writes = std::unordered_map<ir::ValueId, std::vector<std::size_t>>;

// Base of the memory written -> positions of the forward's writes, ascending.
Writes forward_writes(const Joint& joint) {
  const ir::Graph& graph = joint.graph;
  Writes writes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::Node& node = graph.node(ir::NodeId(i));
    if (joint.needs_tangent[i]) {
      continue;
    }
    for (const std::uint32_t argument : node.mutates) {
      if (const auto* value = std::get_if<ir::ValueId>(&node.arguments[argument])) {
        writes[joint.base[value->index()]].push_back(i);
      }
    }
  }
  for (std::size_t i = 0; i < joint.forward_output_count; ++i) {
    const ir::Output& output = graph.outputs()[i];
    if (output.kind == ir::OutputKind::kMutation) {
      const ir::ValueId target = graph.inputs()[output.input].value;
      writes[joint.base[target.index()]].push_back(graph.nodes().size());
    }
  }
  return writes;
}

// How many of `writes` have happened when node `position` runs.
std::ptrdiff_t writes_before(const std::vector<std::size_t>& writes, std::size_t position) {
  return std::upper_bound(writes.begin(), writes.end(), position) - writes.begin();
}

// Whether `strides` address a dense block: sorted, each is the product of the sizes below it.
bool is_dense(const ir::TensorMeta& meta) {
  std::vector<std::pair<ir::Expr, ir::Expr>> dimensions;  // Stride and size.
  for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
    if (!(meta.sizes[d] == ir::Expr(1))) {
      dimensions.emplace_back(meta.strides[d], meta.sizes[d]);
    }
  }
  ir::Expr expected = 1;
  while (!dimensions.empty()) {
    const auto next = std::find_if(dimensions.begin(), dimensions.end(), [&](const auto& pair) {
      return pair.first == expected;
    });
    if (next == dimensions.end()) {
      return false;
    }
    expected = expected * next->second;
    dimensions.erase(next);
  }
  return true;
}

}  // namespace

Copies copies_before_writes(const Joint& joint, const BackwardCone& cone) {
  Copies copies;
  const Writes writes = forward_writes(joint);
  if (writes.empty()) {
    return copies;
  }
  std::vector<bool> in_backward(joint.graph.nodes().size());
  for (const ir::NodeId node : cone.nodes) {
    in_backward[node.index()] = true;
  }
  for (const ir::ValueId value : cone.saved) {
    const auto found = writes.find(joint.base[value.index()]);
    if (found == writes.end() || !joint.graph.value(value).is_tensor()) {
      continue;
    }
    // A gradient that is the value itself is read like any use before the write-backs.
    std::ptrdiff_t earliest = static_cast<std::ptrdiff_t>(found->second.size());
    std::ptrdiff_t latest = 0;
    bool is_read = false;
    const auto read_after = [&](std::ptrdiff_t state) {
      earliest = std::min(earliest, state);
      latest = std::max(latest, state);
      is_read = true;
    };
    // A view reads nothing itself: those who use it do.
    std::vector<ir::ValueId> views{value};
    while (!views.empty()) {
      const ir::ValueId view = views.back();
      views.pop_back();
      for (const ir::NodeId user : joint.users.of(view)) {
        if (!in_backward[user.index()]) {
          continue;
        }
        const std::size_t known = views.size();
        for (const ir::ValueId result : joint.graph.node(user).results) {
          if (result.valid() && joint.base[result.index()] == joint.base[value.index()] &&
              joint.graph.node(user).mutates.empty()) {
            views.push_back(result);
          }
        }
        if (views.size() == known) {
          read_after(writes_before(found->second, user.index()));
        }
      }
    }
    if (!is_read) {
      const ir::NodeId producer = joint.graph.value(value).producer;
      read_after(producer.valid() ? writes_before(found->second, producer.index()) : 0);
    }
    if (earliest == static_cast<std::ptrdiff_t>(found->second.size())) {
      continue;  // Read after the last write: the memory itself is right.
    }
    if (earliest != latest) {
      throw Error(ErrorCode::kUnsupported,
                  "the backward reads " + joint.describe(value) +
                      " both before and after the forward writes to it; functionalize the graph");
    }
    copies[found->second[static_cast<std::size_t>(earliest)]].push_back(value);
  }
  return copies;
}

ir::TensorMeta copy_of(const ir::TensorMeta& meta, ir::Graph& graph) {
  ir::TensorMeta copy = meta;
  if (meta.storage.valid()) {
    copy.storage = graph.new_storage();
  }
  copy.offset = 0;
  copy.requires_grad = false;
  if (!is_dense(meta)) {
    copy.strides = ir::contiguous_strides(meta.sizes);
  }
  return copy;
}

}  // namespace kiln::partitioner

#include <algorithm>

#include "functionalizer.hpp"
#include "geometry.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/memory.hpp"

namespace kiln::ir {

void Functionalizer::find_written() {
  memory_ids_ = memory_ids(source_);
  written_.assign(source_.values().size(), false);
  for (std::uint32_t i = 0; i < source_.values().size(); ++i) {
    const Value& value = source_.values()[i];
    if (value.is_tensor() && value.tensor().storage.valid()) {
      owners_.try_emplace(value.tensor().storage, memory_ids_[i]);
    }
  }
  for (const Node& node : source_.nodes()) {
    if (is_in_place_view(node)) {
      continue;
    }
    for (const std::uint32_t argument : node.mutates) {
      for_each_value(node.arguments[argument],
                     [&](ValueId value) { written_[memory_ids_[value.index()]] = true; });
    }
  }
}

std::uint32_t Functionalizer::new_memory(ValueId root) {
  const auto index = static_cast<std::uint32_t>(memories_.size());
  memories_.push_back({.root = root, .geometry = {}});
  if (root.valid()) {
    memories_[index].geometry = source_.tensor(root);
    memories_[index].current = place(root).made;
    memories_of_[memory_ids_[root.index()]].push_back(index);
    place_at(root, index, ValueId(), NodeId());
  }
  return index;
}

/// Puts `value` into a memory; false if another value is at that place already, which it then
/// shares.
bool Functionalizer::place_at(ValueId value, std::uint32_t memory, ValueId parent, NodeId view) {
  Place& here = place(value);
  here.memory = memory;
  here.version = memories_[memory].version;
  here.parent = parent;
  here.view = view;
  here.same = value;
  const TensorMeta& meta = source_.tensor(value);
  const std::size_t hash = hash_of_geometry(meta);
  auto& places = memories_[memory].places;
  for (auto [it, end] = places.equal_range(hash); it != end; ++it) {
    if (same_geometry(source_.tensor(it->second), meta)) {
      here.same = it->second;
      return false;
    }
  }
  places.emplace(hash, value);
  return true;
}

void Functionalizer::place_inputs() {
  // Inputs of one storage alias only if their extents overlap: parameters in one flat buffer do
  // not.
  std::unordered_map<std::uint32_t, std::vector<ValueId>> by_memory;
  std::vector<std::uint32_t> order;
  for (const Input& input : source_.inputs()) {
    if (source_.value(input.value).is_tensor() && written_[memory_ids_[input.value.index()]]) {
      auto& group = by_memory[memory_ids_[input.value.index()]];
      if (group.empty()) {
        order.push_back(memory_ids_[input.value.index()]);
      }
      group.push_back(input.value);
    }
  }
  for (const std::uint32_t memory : order) {
    std::vector<ValueId>& inputs = by_memory[memory];
    const bool known = std::all_of(inputs.begin(), inputs.end(), [&](ValueId value) {
      return extent_of(source_.tensor(value)).has_value();
    });
    if (!known || inputs.size() == 1) {
      place_group(inputs);
      continue;
    }
    const auto extent = [&](ValueId value) {
      const TensorMeta& meta = source_.tensor(value);
      const Extent elements = *extent_of(meta);
      return Extent{elements.begin * size_of(meta.dtype), elements.end * size_of(meta.dtype)};
    };
    std::stable_sort(inputs.begin(), inputs.end(), [&](ValueId a, ValueId b) {
      return extent(a).begin < extent(b).begin;
    });
    std::vector<ValueId> group;
    std::int64_t end = 0;
    for (const ValueId input : inputs) {
      if (!group.empty() && extent(input).begin >= end) {
        place_group(std::move(group));
        group.clear();
      }
      end = group.empty() ? extent(input).end : std::max(end, extent(input).end);
      group.push_back(input);
    }
    place_group(std::move(group));
  }
}

/// Inputs that overlap: one of them may hold all the others, else the memory is seen as flat.
void Functionalizer::place_group(std::vector<ValueId> group) {
  ValueId root = group.size() == 1 ? group[0] : ValueId();
  Extent whole{INT64_MAX, INT64_MIN};
  bool one_dtype = true;
  bool known = true;
  for (const ValueId input : group) {
    const auto extent = extent_of(source_.tensor(input));
    known = known && extent.has_value();
    one_dtype = one_dtype && source_.tensor(input).dtype == source_.tensor(group[0]).dtype;
    if (extent) {
      whole = {std::min(whole.begin, extent->begin), std::max(whole.end, extent->end)};
    }
  }
  const bool all_same = std::all_of(group.begin(), group.end(), [&](ValueId input) {
    return same_geometry(source_.tensor(input), source_.tensor(group[0]));
  });
  if (all_same) {
    root = group[0];
  }
  for (const ValueId input : group) {
    const auto extent = extent_of(source_.tensor(input));
    if (!root.valid() && one_dtype && known && extent->begin == whole.begin &&
        extent->end == whole.end && is_dense(source_.tensor(input))) {
      root = input;
    }
  }
  if (!root.valid() && (!one_dtype || !known)) {
    throw Error(
        ErrorCode::kUnsupported,
        "inputs that share memory and are written, with different types or symbolic geometry: %" +
            source_.value(group[0]).name + " and %" + source_.value(group[1]).name);
  }
  const std::uint32_t memory = new_memory(root);
  if (!root.valid()) {
    TensorMeta flat = source_.tensor(group[0]);
    flat.sizes = {whole.end - whole.begin};
    flat.strides = {1};
    flat.offset = whole.begin;
    flat.requires_grad = flat.conjugate = flat.negative = false;
    memories_[memory].geometry = flat;
    memories_of_[memory_ids_[group[0].index()]].push_back(memory);
  }
  for (const ValueId input : group) {
    if (input != root) {
      place_at(input, memory, ValueId(), NodeId());
    }
  }
  memories_[memory].inputs = std::move(group);
}

void Functionalizer::place_result(ValueId value, NodeId id) {
  if (!source_.value(value).is_tensor() || !written_[memory_ids_[value.index()]]) {
    return;
  }
  const Node& node = source_.node(id);
  const std::uint32_t result = source_.value(value).result_index;
  for (const Alias& alias : node.aliases) {
    const auto* argument = std::get_if<ValueId>(&node.arguments[alias.argument]);
    // What set_ gives is a view of its source, whatever it was called on.
    if (alias.result == result && argument != nullptr && place(*argument).memory != kUntracked &&
        operator_name(node.target) != "set_") {
      place_at(value, place(*argument).memory, place(*argument).same, id);
      return;
    }
  }
  // Its storage is known although no view leads to it: it is addressed by its strides.
  const auto found = memories_of_.find(memory_ids_[value.index()]);
  if (found == memories_of_.end()) {
    new_memory(value);
    return;
  }
  const auto extent = extent_of(source_.tensor(value));
  for (const std::uint32_t candidate : found->second) {
    const auto around = extent_of(memories_[candidate].geometry);
    if (!extent || !around || (extent->begin >= around->begin && extent->end <= around->end)) {
      place_at(value, candidate, ValueId(), NodeId());
      return;
    }
  }
  throw Error(
      ErrorCode::kUnsupported,
      node.target + " returns a view of mutated memory outside every tensor the graph knows");
}

}  // namespace kiln::ir

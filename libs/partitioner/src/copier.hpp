// Copies parts of one graph into another.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// A graph under construction, and which of its values replaces which of the source's.
class Copier {
 public:
  Copier(const ir::Graph& source, std::string name)
      : source_(source), target_(std::move(name)), image_(source.values().size()) {
    target_.reserve(source.nodes().size(), source.values().size());
    for (const ir::Value& value : source.values()) {
      if (value.is_tensor() && value.tensor().storage.valid()) {
        target_.reserve_storage(value.tensor().storage);
      }
    }
    for (const ir::Graph& subgraph : source.subgraphs()) {
      target_.add_subgraph(subgraph);
    }
  }

  [[nodiscard]] ir::Graph& target() { return target_; }

  void set_image(ir::ValueId value, ir::ValueId image) { image_[value.index()] = image; }

  [[nodiscard]] ir::ValueId image(ir::ValueId value) const {
    if (!value.valid()) {
      return {};
    }
    ensure(image_[value.index()].valid(), "a value is used before it is computed");
    return image_[value.index()];
  }

  void add_input(ir::ValueId value, ir::InputKind kind, const std::string& name) {
    const ir::Value& from = source_.value(value);
    set_image(value, target_.add_input(from.name, from.meta, kind, name));
  }

  /// Node `id` with its operands replaced by their images; its results are still the source's.
  [[nodiscard]] ir::Node translate(ir::NodeId id) const {
    ir::Node node = source_.node(id);
    for (ir::Argument& argument : node.arguments) {
      if (auto* value = std::get_if<ir::ValueId>(&argument)) {
        *value = image(*value);
      } else if (auto* values = std::get_if<std::vector<ir::ValueId>>(&argument)) {
        for (ir::ValueId& element : *values) {
          element = image(element);
        }
      }
    }
    return node;
  }

  ir::NodeId add_node(ir::NodeId id) {
    std::vector<std::optional<ir::ValueMeta>> metas;
    std::vector<std::string> names;
    const std::vector<ir::ValueId>& results = source_.node(id).results;
    for (const ir::ValueId result : results) {
      metas.push_back(result.valid() ? std::optional(source_.value(result).meta) : std::nullopt);
      names.push_back(result.valid() ? source_.value(result).name : std::string());
    }
    const ir::NodeId copy = target_.add_node(translate(id), std::move(metas), names);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].valid()) {
        set_image(results[i], target_.node(copy).results[i]);
      }
    }
    return copy;
  }

  void add_output(const ir::Output& output) {
    ir::Output copy = output;
    copy.value = image(output.value);
    target_.add_output(std::move(copy));
  }

  [[nodiscard]] ir::Graph take() { return std::move(target_); }

 private:
  const ir::Graph& source_;
  ir::Graph target_;
  std::vector<ir::ValueId> image_;
};

}  // namespace kiln::partitioner

// Copies parts of one graph into another.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::partitioner {

/// A graph in the making, and which of its values stands for which of the source's.
class Copier {
 public:
  Copier(const ir::Graph& source, std::string name)
      : source_(source), target_(std::move(name)), image_(source.values().size()) {
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

  void add_node(ir::NodeId id) {
    ir::Node node = source_.node(id);
    std::vector<std::optional<ir::ValueMeta>> metas;
    std::vector<std::string> names;
    for (const ir::ValueId result : node.results) {
      metas.push_back(result.valid() ? std::optional(source_.value(result).meta) : std::nullopt);
      names.push_back(result.valid() ? source_.value(result).name : std::string());
    }
    for (ir::Argument& argument : node.arguments) {
      if (auto* value = std::get_if<ir::ValueId>(&argument)) {
        *value = image(*value);
      } else if (auto* values = std::get_if<std::vector<ir::ValueId>>(&argument)) {
        for (ir::ValueId& element : *values) {
          element = image(element);
        }
      }
    }
    const ir::NodeId copy = target_.add_node(std::move(node), std::move(metas), names);
    for (std::size_t i = 0; i < source_.node(id).results.size(); ++i) {
      if (const ir::ValueId result = source_.node(id).results[i]; result.valid()) {
        set_image(result, target_.node(copy).results[i]);
      }
    }
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

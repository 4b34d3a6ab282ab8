// The values of a serialized graph while it runs, by name.

#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {

/// Names to values.
class Environment {
 public:
  void bind(std::string name, c10::IValue value) { values_[std::move(name)] = std::move(value); }
  void forget(const std::string& name) { values_.erase(name); }

  /// Throws `kCorrupt` if nothing has that name.
  [[nodiscard]] const c10::IValue& at(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      throw Error(ErrorCode::kCorrupt, "the graph uses " + name + " before it is defined");
    }
    return found->second;
  }

 private:
  std::unordered_map<std::string, c10::IValue> values_;
};

}  // namespace kiln::exporter

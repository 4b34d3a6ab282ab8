#include "kiln/export/flat_value.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson constant(const c10::IValue& value) {
  if (value.isNone()) {
    return nullptr;
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isInt()) {
    return value.toInt();
  }
  if (value.isDouble()) {
    if (!std::isfinite(value.toDouble())) {
      throw Error(ErrorCode::kUnsupported,
                  "a call spec is JSON and cannot hold a number that is not finite");
    }
    return value.toDouble();
  }
  if (value.isString()) {
    return value.toStringRef();
  }
  throw Error(ErrorCode::kUnsupported,
              "a value of type " + value.tagKind() +
                  " is neither a tensor, a number, a string, None nor a tuple, list or dictionary");
}

class ValueReader {
 public:
  explicit ValueReader(FlatValue& flat) : flat_(flat) {}

  OrderedJson read(const c10::IValue& value) {
    if (value.isTuple()) {
      return branch("builtins.tuple", "null", value.toTupleRef().elements());
    }
    if (value.isList()) {
      return branch("builtins.list", "null", value.toListRef());
    }
    if (value.isGenericDict()) {
      std::vector<c10::IValue> values;
      OrderedJson keys = OrderedJson::array();
      for (const auto& entry : value.toGenericDict()) {
        keys.push_back(constant(entry.key()));
        values.push_back(entry.value());
      }
      return branch("builtins.dict", keys.dump(), values);
    }
    if (value.isTensor()) {
      flat_.leaves.push_back({.tensor = static_cast<std::uint32_t>(flat_.tensors.size())});
      flat_.tensors.push_back(value.toTensor());
    } else {
      flat_.leaves.push_back({.constant = constant(value).dump()});
    }
    return {{"type", nullptr}, {"context", nullptr}, {"children_spec", OrderedJson::array()}};
  }

 private:
  template <class Values>
  OrderedJson branch(const char* type, const std::string& context, const Values& values) {
    OrderedJson children = OrderedJson::array();
    for (const c10::IValue& value : values) {
      children.push_back(read(value));
    }
    return {{"type", type}, {"context", context}, {"children_spec", std::move(children)}};
  }

  FlatValue& flat_;
};

}  // namespace

FlatValue flatten(const c10::IValue& value) {
  FlatValue flat;
  flat.spec = ValueReader(flat).read(value).dump();
  return flat;
}

}  // namespace kiln::exporter

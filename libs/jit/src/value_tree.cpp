#include "kiln/jit/value_tree.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

#include "kiln/base/error.hpp"
#include "kiln/export/flat_value.hpp"

namespace kiln {
namespace {

using nlohmann::json;
using Tensors = std::vector<at::Tensor>;

constexpr const char* kList = "builtins.list";
constexpr const char* kDictionary = "builtins.dict";

bool is_leaf(const json& spec) {
  return spec.at("type").is_null();
}

bool is_dictionary(const json& spec) {
  return spec.at("type") == kDictionary || spec.at("type") == "collections.OrderedDict";
}

// Of a dictionary's spec: its keys, in the order of its children.
std::vector<std::string> keys_of(const json& spec) {
  const json keys = json::parse(spec.at("context").get<std::string>());
  if (!std::all_of(keys.begin(), keys.end(), [](const json& key) { return key.is_string(); })) {
    throw Error(ErrorCode::kUnsupported, "a dictionary has a key that is not a string");
  }
  return keys.get<std::vector<std::string>>();
}

c10::IValue value_of(const json& constant) {
  switch (constant.type()) {
    case json::value_t::boolean: return constant.get<bool>();
    case json::value_t::number_integer:
    case json::value_t::number_unsigned: return constant.get<std::int64_t>();
    case json::value_t::number_float: return constant.get<double>();
    case json::value_t::string: return constant.get<std::string>();
    default: return {};
  }
}

// Writes each constant into the leaf that it is.
void add_constants(json& spec, const std::vector<exporter::Leaf>& leaves, std::size_t& next) {
  if (is_leaf(spec)) {
    const exporter::Leaf& leaf = leaves.at(next++);
    if (!leaf.tensor) {
      spec["constant"] = json::parse(leaf.constant);
    }
    return;
  }
  if (is_dictionary(spec)) {
    static_cast<void>(keys_of(spec));  // Refuses keys that cannot be put back.
  }
  for (json& child : spec.at("children_spec")) {
    add_constants(child, leaves, next);
  }
}

// Lists of tensors are typed ones, as an operator or a module would return them.
c10::IValue list_of(const std::vector<c10::IValue>& items) {
  const bool tensors = std::all_of(
      items.begin(), items.end(), [](const c10::IValue& item) { return item.isTensor(); });
  c10::impl::GenericList list(tensors ? c10::TypePtr(c10::TensorType::get())
                                      : c10::TypePtr(c10::AnyType::get()));
  for (const c10::IValue& item : items) {
    list.push_back(item);
  }
  return tensors ? c10::IValue(c10::impl::toTypedList<at::Tensor>(std::move(list)))
                 : c10::IValue(std::move(list));
}

c10::IValue dictionary_of(const std::vector<std::string>& keys,
                          const std::vector<c10::IValue>& items) {
  const bool tensors = std::all_of(
      items.begin(), items.end(), [](const c10::IValue& item) { return item.isTensor(); });
  c10::impl::GenericDict dictionary(
      c10::StringType::get(),
      tensors ? c10::TypePtr(c10::TensorType::get()) : c10::TypePtr(c10::AnyType::get()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    dictionary.insert(keys[i], items[i]);
  }
  return dictionary;
}

c10::IValue unflatten_from(const json& spec, const Tensors& tensors, std::size_t& next) {
  if (is_leaf(spec)) {
    if (const auto constant = spec.find("constant"); constant != spec.end()) {
      return value_of(*constant);
    }
    if (next >= tensors.size()) {
      throw Error(ErrorCode::kInvalidArgument, "there are fewer tensors than the structure has");
    }
    return tensors[next++];
  }
  std::vector<c10::IValue> children;
  for (const json& child : spec.at("children_spec")) {
    children.push_back(unflatten_from(child, tensors, next));
  }
  if (is_dictionary(spec)) {
    return dictionary_of(keys_of(spec), children);
  }
  if (spec.at("type") == kList) {
    return list_of(children);
  }
  return c10::ivalue::Tuple::create(std::move(children));
}

// Walks a value along the spec that it must have; `path` says where, for people.
class Matcher {
 public:
  Tensors tensors;

  void match(const json& spec, const c10::IValue& value, const std::string& path) {
    const json& children = spec.at("children_spec");
    if (is_leaf(spec)) {
      if (value.isTensor()) {
        tensors.push_back(value.toTensor());
      } else if (value.isTuple() || value.isList() || value.isGenericDict()) {
        throw mismatch(path, "one value");
      }
    } else if (is_dictionary(spec)) {
      match_dictionary(keys_of(spec), children, value, path);
    } else {
      const bool list = value.isList();
      if (!list && !value.isTuple()) {
        throw mismatch(path, "a tuple or a list");
      }
      const std::vector<c10::IValue> items =
          list ? value.toListRef().vec() : value.toTupleRef().elements().vec();
      if (items.size() != children.size()) {
        throw mismatch(path, std::to_string(children.size()) + " items");
      }
      for (std::size_t i = 0; i < items.size(); ++i) {
        match(children[i], items[i], path + "[" + std::to_string(i) + "]");
      }
    }
  }

  void match_dictionary(const std::vector<std::string>& keys,
                        const json& children,
                        const c10::IValue& value,
                        const std::string& path) {
    if (!value.isGenericDict()) {
      throw mismatch(path, "a dictionary");
    }
    const auto dictionary = value.toGenericDict();
    if (dictionary.size() != keys.size()) {
      throw mismatch(path, std::to_string(keys.size()) + " items");
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = dictionary.find(keys[i]);
      if (found == dictionary.end()) {
        throw mismatch(path, "an item '" + keys[i] + "'");
      }
      match(children[i], found->value(), path + "['" + keys[i] + "']");
    }
  }

  static Error mismatch(const std::string& path, const std::string& expected) {
    return Error(ErrorCode::kInvalidArgument, path + " must be or have " + expected);
  }
};

}  // namespace

FlatValue flatten(const c10::IValue& value) {
  exporter::FlatValue parts = exporter::flatten(value);
  FlatValue flat{std::move(parts.tensors), json::parse(parts.spec)};
  std::size_t next = 0;
  add_constants(flat.structure, parts.leaves, next);
  return flat;
}

c10::IValue unflatten(const json& structure, const Tensors& tensors) {
  std::size_t next = 0;
  c10::IValue value = unflatten_from(structure, tensors, next);
  if (next != tensors.size()) {
    throw Error(ErrorCode::kInvalidArgument, "there are more tensors than the structure has");
  }
  return value;
}

Tensors flatten_arguments(const json& spec,
                          const std::vector<c10::IValue>& arguments,
                          const std::map<std::string, c10::IValue>& named) {
  const json& positional = spec.at("children_spec").at(0).at("children_spec");
  const json& keywords = spec.at("children_spec").at(1);
  if (arguments.size() != positional.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the model takes " + std::to_string(positional.size()) +
                    " arguments without names, got " + std::to_string(arguments.size()));
  }
  Matcher matcher;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    matcher.match(positional[i], arguments[i], "argument " + std::to_string(i));
  }
  const std::vector<std::string> names = keys_of(keywords);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = named.find(names[i]);
    if (found == named.end()) {
      throw Error(ErrorCode::kInvalidArgument, "there is no argument '" + names[i] + "'");
    }
    matcher.match(keywords.at("children_spec").at(i), found->second, "argument '" + names[i] + "'");
  }
  for (const auto& [name, value] : named) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::kInvalidArgument, "the model takes no argument '" + name + "'");
    }
  }
  return std::move(matcher.tensors);
}

}  // namespace kiln

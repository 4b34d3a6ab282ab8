#include "kiln/jit/value_tree.hpp"

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cmath>

#include "kiln/base/error.hpp"
#include "kiln/export/flat_value.hpp"
#include "kiln/jit/function.hpp"

namespace kiln {
namespace {

using nlohmann::json;

constexpr const char* kList = "builtins.list";
// Of leaves that are no tensors: what they are, or that they are integers.
constexpr const char* kConstant = "constant";
constexpr const char* kInteger = "integer";
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
      spec[kConstant] = json::parse(leaf.constant);
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
    if (const auto constant = spec.find(kConstant); constant != spec.end()) {
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

// Calls `visit` on each leaf.
void for_each_leaf(json& structure, const std::function<void(json&)>& visit) {
  if (is_leaf(structure)) {
    visit(structure);
    return;
  }
  for (json& child : structure.at("children_spec")) {
    for_each_leaf(child, visit);
  }
}

// JSON has no number for it: an archive names it.
bool is_same_special_float(double value, const json& constant) {
  return constant == "NaN"         ? std::isnan(value)
         : constant == "Infinity"  ? value > 0 && std::isinf(value)
         : constant == "-Infinity" ? value < 0 && std::isinf(value)
                                   : false;
}

bool is_same_constant(const c10::IValue& value, const json& constant) {
  if (value.isDouble() && constant.is_string()) {
    return is_same_special_float(value.toDouble(), constant);
  }
  // 2.0 is not 2: with it, results may have another type.
  const c10::IValue fixed = value_of(constant);
  return value.tagKind() == fixed.tagKind() && value == fixed;
}

// Walks a value along the spec that it must have; `path` says where, for people.
class Matcher {
 public:
  Tensors tensors;

  void match(const json& spec, const c10::IValue& value, const std::string& path) {
    const json& children = spec.at("children_spec");
    if (is_leaf(spec)) {
      if (const auto constant = spec.find(kConstant); constant != spec.end()) {
        if (!is_same_constant(value, *constant)) {
          throw mismatch(path,
                         "the value " + constant->dump() +
                             ", with which the program was exported and compiled; torch.export "
                             "makes it an input with Dim.AUTO or Dim.DYNAMIC if it is an integer");
        }
      } else if (value.isTensor()) {
        tensors.push_back(value.toTensor());
      } else if (spec.contains(kInteger)) {
        if (!value.isInt()) {
          throw mismatch(path, "an integer");
        }
        tensors.push_back(at::scalar_tensor(value.toInt(), at::kLong));
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

std::vector<std::int64_t> take_integers(
    json& structure, const std::function<bool(std::int64_t, std::size_t)>& may_take) {
  std::vector<std::int64_t> taken;
  for_each_leaf(structure, [&](json& leaf) {
    const auto constant = leaf.find(kConstant);
    if (constant == leaf.end() || !constant->is_number_integer()) {
      return;
    }
    const auto value = constant->get<std::int64_t>();
    if (may_take(value, taken.size())) {
      leaf.erase(constant);
      leaf[kInteger] = true;
      taken.push_back(value);
    }
  });
  return taken;
}

void put_integers(json& structure, std::span<const std::int64_t> integers) {
  std::size_t next = 0;
  for_each_leaf(structure, [&](json& leaf) {
    if (leaf.contains(kInteger)) {
      leaf.erase(kInteger);
      leaf[kConstant] = integers[next++];
    }
  });
}

std::string spec_with_numbers(const std::string& spec,
                              const std::vector<exporter::Leaf>& leaves,
                              const std::set<std::uint32_t>& integers) {
  const bool has_numbers = std::ranges::any_of(leaves, [&](const exporter::Leaf& leaf) {
    return !leaf.tensor || integers.contains(*leaf.tensor);
  });
  if (!has_numbers) {
    return spec;
  }
  json parsed = json::parse(spec);
  std::size_t next = 0;
  for_each_leaf(parsed.at(1), [&](json& leaf) {
    const exporter::Leaf& known = leaves.at(next++);
    if (!known.tensor) {
      leaf[kConstant] = json::parse(known.constant);
    } else if (integers.contains(*known.tensor)) {
      leaf[kInteger] = true;
    }
  });
  return parsed.dump();
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

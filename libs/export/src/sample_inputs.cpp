#include "sample_inputs.hpp"

#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "unpickle.hpp"

namespace kiln::exporter {
namespace {

using Leaves = std::vector<std::optional<at::Tensor>>;

void flatten(const c10::IValue& value, const Json& spec, Leaves& leaves) {
  const Json& children = spec.at("children_spec");
  if (spec.at("type").is_null()) {
    leaves.push_back(value.isTensor() ? std::optional(value.toTensor()) : std::nullopt);
    return;
  }
  std::vector<c10::IValue> parts;
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    parts.assign(elements.begin(), elements.end());
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    parts.assign(elements.begin(), elements.end());
  } else if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    const Json keys =
        Json::parse(spec.at("context").get<std::string>(), nullptr, /*allow_exceptions=*/false);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const c10::IValue key = keys.is_array() && keys.at(i).is_number_integer()
                                  ? c10::IValue(keys.at(i).get<std::int64_t>())
                                  : c10::IValue(keys.at(i).get<std::string>());
      parts.push_back(dict.at(key));
    }
  }
  if (parts.size() != children.size()) {
    throw Error(ErrorCode::kCorrupt,
                "the sample inputs do not have the structure of the call spec");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    flatten(parts[i], children.at(i), leaves);
  }
}

c10::IValue constant_of(const std::string& text) {
  const Json constant = Json::parse(text);
  if (constant.is_boolean()) {
    return constant.get<bool>();
  }
  if (constant.is_number_integer()) {
    return constant.get<std::int64_t>();
  }
  if (constant.is_number()) {
    return constant.get<double>();
  }
  return constant.is_string() ? c10::IValue(constant.get<std::string>()) : c10::IValue();
}

// Takes as many of `leaves` from the front as `tree` has.
c10::IValue unflatten(const Json& tree, std::span<const Leaf>& leaves, const Tensors& tensors) {
  if (tree.at("type").is_null()) {
    if (leaves.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "the call spec has more leaves than the program");
    }
    const Leaf leaf = leaves.front();
    leaves = leaves.subspan(1);
    return leaf.tensor ? c10::IValue(tensors.at(*leaf.tensor)) : constant_of(leaf.constant);
  }
  std::vector<c10::IValue> parts;
  for (const Json& child : tree.at("children_spec")) {
    parts.push_back(unflatten(child, leaves, tensors));
  }
  const auto type = tree.at("type").get<std::string>();
  if (type == "builtins.tuple") {
    return c10::ivalue::Tuple::create(std::move(parts));
  }
  if (type == "builtins.list") {
    c10::impl::GenericList list(c10::AnyType::get());
    for (c10::IValue& part : parts) {
      list.push_back(std::move(part));
    }
    return list;
  }
  const Json keys = Json::parse(tree.at("context").get<std::string>());
  if (type != "builtins.dict" || !keys.is_array() || keys.size() != parts.size()) {
    throw Error(ErrorCode::kUnsupported,
                "sample inputs of type " + type + " cannot be written without Python");
  }
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    dict.insert(constant_of(keys[i].dump()), std::move(parts[i]));
  }
  return dict;
}

}  // namespace

std::optional<Leaves> read_sample_inputs(const ArchiveFile& archive,
                                         const std::string& model,
                                         const Json& in_tree) {
  const std::string record = "data/sample_inputs/" + model + ".pt";
  if (!archive.has(record)) {
    return std::nullopt;
  }
  try {
    const c10::IValue value = unpickle(archive.bytes(record));
    if (value.isNone()) {
      return std::nullopt;
    }
    Leaves leaves;
    flatten(value, in_tree, leaves);
    return leaves;
  } catch (const std::exception& error) {
    const std::string message = error.what();
    KILN_LOG(kWarning,
             "export",
             record << " cannot be read without Python: " << message.substr(0, message.find('\n')));
    return std::nullopt;
  }
}

std::vector<char> write_sample_inputs(const Json& in_tree,
                                      std::span<const Leaf> leaves,
                                      const Tensors& tensors) {
  const c10::IValue value = unflatten(in_tree, leaves, tensors);
  std::vector<char> pickle;
  // Without type tags: they are functions of TorchScript's that `torch.load` refuses.
  torch::jit::Pickler pickler(
      [&](const char* data, std::size_t size) { pickle.insert(pickle.end(), data, data + size); },
      /*tensor_table=*/nullptr,
      /*type_renamer=*/nullptr,
      /*memoized_class_types=*/nullptr,
      /*get_tensor_id=*/nullptr,
      /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();

  std::vector<char> archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    archive.insert(archive.end(), bytes, bytes + size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  std::size_t next = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    const auto data = torch::jit::getWriteableTensorData(tensor);
    writer.writeRecord("data/" + std::to_string(next++), data.data(), data.sizeInBytes());
  }
  writer.writeEndOfFile();
  return archive;
}

}  // namespace kiln::exporter

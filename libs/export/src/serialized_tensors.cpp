#include "serialized_tensors.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <exception>
#include <optional>
#include <utility>

#include "kiln/base/error.hpp"
#include "serialized_types.hpp"
#include "unpickle.hpp"

namespace kiln::exporter {
namespace {

constexpr const char* kWeights = "data/weights/";
constexpr const char* kConstants = "data/constants/";

// The number of elements that the tensor reaches into its storage, or nothing if that overflows.
std::optional<std::int64_t> reach_of(const SerializedTensor& meta) {
  if (meta.sizes.size() != meta.strides.size() || meta.offset < 0) {
    return std::nullopt;
  }
  std::int64_t last = meta.offset;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] < 0 || meta.strides[i] < 0) {
      return std::nullopt;
    }
    if (meta.sizes[i] == 0) {
      return 0;
    }
    std::int64_t step = 0;
    if (__builtin_mul_overflow(meta.sizes[i] - 1, meta.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  std::int64_t reach = 0;
  return __builtin_add_overflow(last, std::int64_t{1}, &reach) ? std::nullopt
                                                               : std::optional(reach);
}

at::Tensor view_of(const c10::Storage& storage,
                   const SerializedTensor& meta,
                   const std::string& name) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(meta.dtype));
  const auto reach = reach_of(meta);
  if (!reach || *reach > static_cast<std::int64_t>(storage.nbytes()) / element) {
    throw Error(ErrorCode::kCorrupt, "the tensor " + name + " reaches beyond its record");
  }
  if (meta.layout != c10::Layout::Strided) {
    throw Error(ErrorCode::kUnsupported, "the tensor " + name + " is sparse");
  }
  at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(meta.dtype));
  tensor.set_(storage, meta.offset, meta.sizes, meta.strides);
  return tensor;
}

at::Tensor unpickle_tensor(const ArchiveFile& archive, const std::string& record) {
  try {
    const c10::IValue value = unpickle(archive.bytes(record));
    if (value.isTensor()) {
      return value.toTensor();
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kUnsupported,
                "the pickled tensor " + record + " cannot be read: " + std::string(error.what()));
  }
  throw Error(ErrorCode::kUnsupported, "the record " + record + " holds no tensor");
}

void read_payload(const ArchiveFile& archive,
                  const std::string& directory,
                  const std::string& index,
                  std::map<std::string, at::Tensor>& tensors) {
  if (!archive.has(index)) {
    throw Error(ErrorCode::kCorrupt, archive.path().string() + " has no record " + index);
  }
  const Json config = Json::parse(archive.text(index));
  std::map<std::string, c10::Storage> storages;
  for (const auto& [name, payload] : config.at("config").items()) {
    const auto file = payload.at("path_name").get<std::string>();
    const Json& meta_json = payload.at("tensor_meta");
    if (meta_json.is_null()) {
      continue;  // A custom object: reported when something uses it.
    }
    if (payload.at("use_pickle").get<bool>()) {
      tensors[name] = unpickle_tensor(archive, directory + file);
      continue;
    }
    const SerializedTensor meta = read_tensor_meta(meta_json);
    auto found = storages.find(file);
    if (found == storages.end()) {
      found =
          storages.emplace(file, archive.storage(directory + file, c10::elementSize(meta.dtype)))
              .first;
    }
    at::Tensor tensor = view_of(found->second, meta, name);
    if (meta.requires_grad && payload.at("is_param").get<bool>()) {
      tensor.set_requires_grad(true);
    }
    tensors[name] = std::move(tensor);
  }
}

}  // namespace

std::map<std::string, at::Tensor> read_weights(const ArchiveFile& archive,
                                               const std::string& model) {
  std::map<std::string, at::Tensor> tensors;
  read_payload(archive, kWeights, kWeights + model + "_weights_config.json", tensors);
  read_payload(archive, kConstants, kConstants + model + "_constants_config.json", tensors);
  return tensors;
}

}  // namespace kiln::exporter

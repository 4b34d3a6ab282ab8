#include "container/constant_set.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "container/failure.hpp"
#include "container/geometry.hpp"

namespace kiln::container {
namespace {

// libtorch copies more with several threads.
constexpr std::uint64_t kFewBytes = 256 * 1024;

// True if a plain copy does what libtorch's would, which costs a trip through the dispatcher.
// Complex numbers may be conjugated when they are read.
bool is_copied_bytewise(const KilnConstant& constant, AtenTensorHandle value) {
  Geometry actual;
  if (constant.bytes > kFewBytes || constant.device_type != aoti_torch_device_type_cpu() ||
      !read_geometry(value, actual) || actual.device_type != constant.device_type ||
      actual.dtype != constant.dtype || actual.rank != constant.rank ||
      is_complex(constant.dtype)) {
    return false;
  }
  std::int64_t dense = 1;
  for (std::int64_t i = constant.rank; i-- > 0;) {
    if (actual.sizes[i] != constant.sizes[i] || actual.strides[i] != constant.strides[i] ||
        constant.strides[i] != dense) {
      return false;
    }
    dense *= constant.sizes[i];
  }
  return true;
}

}  // namespace

bool is_mutated(const KilnModel& model, const KilnConstant& constant) {
  if (model.mutates_constants == 0 || constant.mutated != 0) {
    return constant.mutated != 0;
  }
  // A generator that sets no flag may write to any of them.
  return std::none_of(model.constants,
                      model.constants + model.num_constants,
                      [](const KilnConstant& other) { return other.mutated != 0; });
}

ConstantSet::ConstantSet(const KilnModel& model, std::int32_t device_index)
    : model_(model),
      device_index_(device_index),
      handles_(static_cast<std::size_t>(model.num_constants), nullptr),
      data_(handles_.size(), nullptr),
      user_managed_(handles_.size(), false) {}

ConstantSet::ConstantSet(const ConstantSet& other)
    : ConstantSet(other.model_, other.device_index_) {
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (other.handles_[i] != nullptr) {
      put(i, share(other.handles_[i]), other.user_managed_[i]);
    }
  }
}

ConstantSet::~ConstantSet() {
  delete_handles(handles_.data(), handles_.size());
}

void ConstantSet::take_embedded(unsigned char* weights, AtenTensorHandle on_device) {
  void* device_weights = weights;
  if (on_device != nullptr) {
    check(aoti_torch_get_data_ptr(on_device, &device_weights), "the weights on the device");
  }
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    const KilnConstant& constant = model_.constants[i];
    // One without elements needs no memory.
    if (constant.blob_offset == UINT64_MAX || (weights == nullptr && constant.bytes != 0)) {
      continue;
    }
    if (constant.blob_offset > model_.weights_bytes ||
        constant.bytes > model_.weights_bytes - constant.blob_offset) {
      throw Failure(std::string("constant '") + constant.name + "' lies outside the weights");
    }
    auto* const bytes = constant.device_type == aoti_torch_device_type_cpu()
                            ? weights
                            : static_cast<unsigned char*>(device_weights);
    Tensor embedded = wrap(constant, bytes + constant.blob_offset, constant.device_type);
    if (is_mutated(model_, constant)) {
      put_copy(i, embedded.get());
    } else {
      put(i, std::move(embedded));
    }
  }
}

void ConstantSet::copy_blob(const unsigned char* blob) {
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    const KilnConstant& constant = model_.constants[i];
    if (constant.blob_offset != UINT64_MAX && !is_folded(constant)) {
      // Only read through: the wrapped tensor is the source of a copy.
      put_copy(i,
               wrap(constant,
                    const_cast<unsigned char*>(blob) + constant.blob_offset,
                    aoti_torch_device_type_cpu())
                   .get());
    }
  }
}

void ConstantSet::put(std::size_t index, Tensor value, bool user_managed) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(value.get(), &data), model_.constants[index].name);
  const Tensor old(handles_[index]);
  handles_[index] = value.release();
  data_[index] = data;
  user_managed_[index] = user_managed;
}

void ConstantSet::put_copy(std::size_t index, AtenTensorHandle value) {
  const KilnConstant& constant = model_.constants[index];
  AtenTensorHandle result = nullptr;
  check(aoti_torch_empty_strided(constant.rank,
                                 constant.sizes,
                                 constant.strides,
                                 constant.dtype,
                                 constant.device_type,
                                 index_on(constant.device_type),
                                 &result),
        constant.name);
  Tensor copy(result);
  if (is_copied_bytewise(constant, value)) {
    void* from = nullptr;
    void* to = nullptr;
    check(aoti_torch_get_data_ptr(value, &from), constant.name);
    check(aoti_torch_get_data_ptr(result, &to), constant.name);
    std::memcpy(to, from, constant.bytes);
  } else {
    check(aoti_torch_copy_(result, value, 0), constant.name);
  }
  put(index, std::move(copy));
}

std::int32_t ConstantSet::index_on(std::int32_t device_type) const {
  return device_type == model_.device_type ? device_index_ : -1;
}

Tensor ConstantSet::wrap(const KilnConstant& constant,
                         unsigned char* data,
                         std::int32_t device_type) const {
  AtenTensorHandle result = nullptr;
  check(aoti_torch_create_tensor_from_blob_v2(data,
                                              constant.rank,
                                              constant.sizes,
                                              constant.strides,
                                              0,
                                              constant.dtype,
                                              device_type,
                                              index_on(device_type),
                                              &result,
                                              aoti_torch_layout_strided(),
                                              nullptr,
                                              0),
        constant.name);
  return Tensor(result);
}

bool ConstantSet::is_complete() const {
  return std::find(handles_.begin(), handles_.end(), nullptr) == handles_.end();
}

std::optional<std::size_t> ConstantSet::first_missing() const {
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (handles_[i] == nullptr && !is_folded(model_.constants[i])) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace kiln::container

#include "dry_run.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <sstream>

#include "value_table.hpp"

namespace kiln::capture {
namespace {

bool same_geometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

bool is_device(const c10::Type& type) {
  return type.kind() == c10::TypeKind::DeviceObjType ||
         (type.kind() == c10::TypeKind::OptionalType &&
          type.containedType(0)->kind() == c10::TypeKind::DeviceObjType);
}

// The tensors of a call, and what stands in for each.
struct Cast {
  std::vector<at::Tensor> originals, stand_ins;

  [[nodiscard]] at::Tensor in_place_of(const at::Tensor& tensor) const {
    for (std::size_t i = 0; i < originals.size(); ++i) {
      if (originals[i].is_same(tensor)) {
        return stand_ins[i];
      }
    }
    return tensor;
  }

  [[nodiscard]] c10::IValue in_place_of(const c10::IValue& argument) const {
    if (argument.isTensor()) {
      return in_place_of(argument.toTensor());
    }
    if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        list.push_back(in_place_of(tensor));
      }
      return list;
    }
    if (argument.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional(in_place_of(*tensor)) : std::nullopt);
      }
      return list;
    }
    return argument;
  }

  [[nodiscard]] DryRunResult::Result result_of(const at::Tensor& returned) const {
    for (std::size_t i = 0; i < stand_ins.size(); ++i) {
      if (stand_ins[i].is_same(returned)) {
        return {.geometry = {}, .operand = i};
      }
    }
    return {.geometry = returned};
  }

  [[nodiscard]] bool is_view(const at::Tensor& returned) const {
    return std::any_of(stand_ins.begin(), stand_ins.end(), [&](const at::Tensor& stand_in) {
      return !stand_in.is_same(returned) && memory_of(stand_in) == memory_of(returned);
    });
  }
};

}  // namespace

std::vector<at::Tensor> tensors_among(std::span<const c10::IValue> arguments) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && std::none_of(tensors.begin(), tensors.end(), [&](const auto& other) {
          return other.is_same(tensor);
        })) {
      tensors.push_back(tensor);
    }
  };
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isList()) {
      for (const c10::IValue& item : argument.toListRef()) {
        if (item.isTensor()) {
          add(item.toTensor());
        }
      }
    }
  }
  return tensors;
}

std::optional<DryRunResult> dry_run(const c10::OperatorHandle& op,
                                    c10::DispatchKeySet keys,
                                    std::span<const c10::IValue> arguments,
                                    const std::function<at::Tensor(const at::Tensor&)>& stand_in,
                                    bool on_meta) {
  Cast cast;
  cast.originals = tensors_among(arguments);
  for (const at::Tensor& original : cast.originals) {
    cast.stand_ins.push_back(stand_in(original));
  }
  torch::jit::Stack stack;
  const std::vector<c10::Argument>& parameters = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!on_meta || !is_device(*parameters[i].real_type())) {
      stack.push_back(cast.in_place_of(arguments[i]));
      continue;
    }
    if (arguments[i].isDevice() && !arguments[i].toDevice().is_cpu()) {
      return std::nullopt;
    }
    stack.emplace_back(c10::Device(at::kMeta));
  }
  op.redispatchBoxed(keys, &stack);

  for (std::size_t i = 0; i < cast.originals.size(); ++i) {
    if (!same_geometry(cast.originals[i], cast.stand_ins[i])) {
      return std::nullopt;
    }
  }
  DryRunResult outcome;
  const auto add = [&](const at::Tensor& returned) {
    if (returned.defined() &&
        (!returned.has_storage() || returned._is_zerotensor() || returned.is_meta() != on_meta)) {
      return false;
    }
    outcome.is_view = outcome.is_view || (returned.defined() && cast.is_view(returned));
    outcome.returns.back().results.push_back(cast.result_of(returned));
    return true;
  };
  for (const c10::IValue& returned : stack) {
    DryRunResult::Return& one = outcome.returns.emplace_back();
    one.is_list = returned.isTensorList();
    if (!one.is_list && !returned.isTensor()) {
      return std::nullopt;
    }
    const std::vector<at::Tensor> tensors =
        one.is_list ? returned.toTensorVector() : std::vector{returned.toTensor()};
    if (!std::all_of(tensors.begin(), tensors.end(), add)) {
      return std::nullopt;
    }
  }
  return outcome;
}

at::Tensor without_memory(const at::Tensor& tensor) {
  at::Tensor made =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return made;
}

// Pages that nobody touches cost nothing, and the system gives them out as zeros.
at::Tensor zero_like(const at::Tensor& tensor) {
  const std::size_t bytes =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
  void* memory = std::calloc(std::max<std::size_t>(bytes, 1), 1);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), bytes, at::DataPtr(memory, memory, &std::free, at::kCPU));
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return made;
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor();
}

std::string geometry_key(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  std::ostringstream key;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) {
      key << tensor.dtype() << tensor.sizes() << tensor.strides();
    }
    key << ';';
  };
  key << &op.schema() << ';';
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isTensorList() || argument.isOptionalTensorList()) {
      for (const c10::IValue& item : argument.toListRef()) {
        add(item.isTensor() ? item.toTensor() : at::Tensor());
      }
      key << ';';
    } else if (!argument.isGenerator()) {
      key << argument << ';';
    }
  }
  return key.str();
}

}  // namespace kiln::capture

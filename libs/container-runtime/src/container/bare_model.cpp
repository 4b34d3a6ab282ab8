#include "container/bare_model.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "container/entry.hpp"
#include "container/failure.hpp"
#include "container/geometry.hpp"
#include "container/model_call.hpp"

namespace kiln::container {
namespace {

constexpr std::int32_t kCurrentDevice = -1;

Tensor wrap(const AOTInductorArrayRefTensor& tensor) {
  AtenTensorHandle result = nullptr;
  check(aoti_torch_create_tensor_from_blob_v2(tensor.data,
                                              tensor.ndim,
                                              tensor.sizes,
                                              tensor.strides,
                                              0,
                                              tensor.dtype,
                                              tensor.device_type,
                                              tensor.device_idx,
                                              &result,
                                              aoti_torch_layout_strided(),
                                              nullptr,
                                              0),
        "an input cannot be wrapped");
  return Tensor(result);
}

void require_rank(std::int64_t rank) {
  if (rank < 0 || rank > AOTI_ARRAYREF_TENSOR_MAX_DIMS) {
    throw Failure("a plain tensor has at most " + std::to_string(AOTI_ARRAYREF_TENSOR_MAX_DIMS) +
                  " dimensions, not " + std::to_string(rank));
  }
}

}  // namespace

BareModel::BareModel(const KilnModel& model)
    : model_(model),
      device_(require_runnable(model), kCurrentDevice),
      weights_(model),
      instance_(nullptr),
      constants_(std::make_unique<ConstantSet>(model, device_.index())) {
  const NoGrad no_grad;
  const DeviceScope scope(device_, nullptr);
  weights_on_device_ = device_.copy_of(weights_.data(), model.weights_bytes);
  constants_->take_embedded(weights_.data(), weights_on_device_.get());
  is_folded_ = constants_->is_complete();
  instance_ = make_instance(model);
}

BareModel::~BareModel() {
  model_.destroy(instance_);
}

void BareModel::take_constants(const AOTInductorConstantMapEntry* pairs, std::size_t count) {
  std::vector<Tensor> taken;
  taken.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    taken.emplace_back(pairs[i].handle);
  }
  auto next = std::make_unique<ConstantSet>(model_, device_.index());
  const auto* const end = model_.constants + model_.num_constants;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = pairs[i].name != nullptr ? pairs[i].name : "";
    const auto* const found =
        std::find_if(model_.constants, end, [&](const KilnConstant& constant) {
          return name == constant.name || name == constant.fqn;
        });
    if (found != end && taken[i]) {
      next->put(static_cast<std::size_t>(found - model_.constants), std::move(taken[i]), true);
    }
  }
  constants_ = std::move(next);
  is_folded_ = false;
}

void BareModel::fold(Stream stream) {
  if (const auto missing = constants_->first_missing()) {
    throw Failure(std::string("constant '") + model_.constants[*missing].fqn + "' has no value");
  }
  if (model_.fold != nullptr) {
    fold_constants(model_, instance_, *constants_, stream);
  }
  is_folded_ = true;
}

void BareModel::run(AtenTensorHandle const* inputs, AtenTensorHandle* outputs) {
  const auto num_outputs = static_cast<std::size_t>(model_.num_outputs);
  require_handles("input", inputs, static_cast<std::size_t>(model_.num_inputs));
  if (model_.check_inputs != 0) {
    check_inputs(model_, device_.index(), inputs);
  }
  const NoGrad no_grad;
  const DeviceScope scope(device_, nullptr);
  if (!is_folded_) {
    fold({static_cast<AOTInductorStreamOpaque*>(scope.stream()), nullptr});
  }
  FreshOutputs fresh(outputs, num_outputs);
  KilnCall call{
      inputs, outputs, constants_->handles(), constants_->data(), scope.stream(), nullptr, nullptr};
  call_model(model_.run, instance_, call);
  fresh.keep();
}

void BareModel::run(const AOTInductorArrayRefTensor* inputs, AOTInductorArrayRefTensor* outputs) {
  std::vector<Tensor> owners;
  std::vector<AtenTensorHandle> handles;
  for (std::int32_t i = 0; i < model_.num_inputs; ++i) {
    require_rank(inputs[i].ndim);
    owners.push_back(wrap(inputs[i]));
    handles.push_back(owners.back().get());
  }
  std::vector<AtenTensorHandle> results(static_cast<std::size_t>(model_.num_outputs), nullptr);
  run(handles.data(), results.data());
  kept_outputs_.clear();
  std::vector<Tensor> owned;
  for (const AtenTensorHandle result : results) {
    owned.emplace_back(result);
  }
  for (std::size_t i = 0; i < owned.size(); ++i) {
    hand_out(std::move(owned[i]), outputs[i]);
  }
}

void BareModel::hand_out(Tensor output, AOTInductorArrayRefTensor& target) {
  Geometry geometry;
  if (!read_geometry(output.get(), geometry)) {
    throw Failure("an output is not a strided tensor");
  }
  require_rank(geometry.rank);
  const std::int64_t wanted = target.numel;
  check(aoti_torch_get_numel(output.get(), &target.numel), "an output has no size");
  target.ndim = static_cast<std::int32_t>(geometry.rank);
  target.dtype = geometry.dtype;
  target.device_type = geometry.device_type;
  check(aoti_torch_get_device_index(output.get(), &target.device_idx), "an output has no device");
  std::copy_n(geometry.sizes, geometry.rank, target.sizes);
  if (target.data == nullptr) {
    std::copy_n(geometry.strides, geometry.rank, target.strides);
    check(aoti_torch_get_data_ptr(output.get(), &target.data), "an output has no memory");
    kept_outputs_.push_back(std::move(output));
    return;
  }
  if (wanted != target.numel) {
    throw Failure("an output has " + std::to_string(target.numel) +
                  " elements, but there is room for " + std::to_string(wanted));
  }
  std::int64_t stride = 1;
  for (std::int64_t i = geometry.rank; i-- > 0;) {
    target.strides[i] = stride;
    stride *= geometry.sizes[i];
  }
  check(aoti_torch_copy_(wrap(target).get(), output.get(), 0), "an output cannot be copied");
}

}  // namespace kiln::container

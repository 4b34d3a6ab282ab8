#include "container/model_call.hpp"

#include <string>
#include <utility>
#include <vector>

#include "container/failure.hpp"
#include "kiln/base/cpu_features.hpp"

namespace kiln::container {

const KilnModel& require_runnable(const KilnModel& model) {
  if (model.version != KILN_MODEL_VERSION) {
    throw Failure("the model's table has version " + std::to_string(model.version) +
                  ", its container version " + std::to_string(KILN_MODEL_VERSION));
  }
  const std::string missing = missing_cpu_features(model.cpu_features, cpu_features());
  if (!missing.empty()) {
    throw Failure(
        "the model was compiled for a CPU with " + missing +
        ", which this machine does not have; compile it for the instruction set it runs on");
  }
  return model;
}

void* make_instance(const KilnModel& model) {
  void* instance = model.create();
  if (instance == nullptr) {
    const std::string own = last_failure();
    throw Failure("an instance of the model cannot be made: " +
                  (own.empty() ? shim_message() : own));
  }
  return instance;
}

void call_model(std::int32_t (*function)(void*, KilnCall*), void* instance, KilnCall& call) {
  if (function(instance, &call) != 0) [[unlikely]] {
    if (call.error != nullptr) {
      throw Failure(call.error);
    }
    const std::string message = shim_message();
    throw Failure(message.empty() ? "a call of libtorch failed; this version of it says why on "
                                    "standard error only"
                                  : message);
  }
}

void fold_constants(const KilnModel& model, void* instance, ConstantSet& constants, Stream stream) {
  std::vector<std::size_t> folded;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.num_constants); ++i) {
    if (is_folded(model.constants[i])) {
      folded.push_back(i);
    }
  }
  struct Outputs {
    std::vector<AtenTensorHandle> handles;
    ~Outputs() { delete_handles(handles.data(), handles.size()); }
  } outputs{std::vector<AtenTensorHandle>(folded.size(), nullptr)};
  KilnCall call{nullptr,
                outputs.handles.data(),
                constants.handles(),
                constants.data(),
                stream.stream,
                stream.proxy_executor,
                nullptr};
  call_model(model.fold, instance, call);
  for (std::size_t i = 0; i < folded.size(); ++i) {
    if (outputs.handles[i] == nullptr) {
      throw Failure(std::string("folding left out '") + model.constants[folded[i]].name + "'");
    }
    constants.put(folded[i], Tensor(std::exchange(outputs.handles[i], nullptr)));
  }
}

}  // namespace kiln::container

extern "C" std::int32_t kiln_best_cpu_level(const char* const* needed, std::int32_t count) {
  return static_cast<std::int32_t>(
      kiln::best_cpu_level({needed, static_cast<std::size_t>(count)}, kiln::cpu_features()));
}

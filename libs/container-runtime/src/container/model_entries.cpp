// The entries for a bare model.

#include <memory>

#include "container/bare_model.hpp"
#include "container/entry.hpp"

namespace kiln::container {
namespace {

BareModel& model_of(AOTInductorModelOpaque* handle) {
  if (handle == nullptr) {
    throw Failure("the model handle is null");
  }
  return *reinterpret_cast<BareModel*>(handle);
}

}  // namespace
}  // namespace kiln::container

using namespace kiln::container;

extern "C" {

int32_t AOTInductorModelCreate(AOTInductorModelOpaque** model,
                               AOTInductorConstantMap* map) noexcept {
  return guarded([&] {
    AOTInductorModelOpaque*& result = required(model, "the place for the model");
    auto made = std::make_unique<BareModel>(kiln_model);
    if (map != nullptr) {
      const auto pairs = pairs_of(map);
      made->take_constants(pairs.data(), pairs.size());
    }
    result = reinterpret_cast<AOTInductorModelOpaque*>(made.release());
  });
}

int32_t AOTInductorModelCreateV2(AOTInductorModelOpaque** model,
                                 const AOTInductorConstantMapEntry* pairs,
                                 size_t num_pairs) noexcept {
  return guarded([&] {
    AOTInductorModelOpaque*& result = required(model, "the place for the model");
    auto made = std::make_unique<BareModel>(kiln_model);
    if (pairs != nullptr && num_pairs != 0) {
      made->take_constants(pairs, num_pairs);
    }
    result = reinterpret_cast<AOTInductorModelOpaque*>(made.release());
  });
}

int32_t AOTInductorModelDelete(AOTInductorModelOpaque* model) noexcept {
  return guarded([&] { delete &model_of(model); });
}

int32_t AOTInductorModelGetNumOutputs(AOTInductorModelOpaque* model, size_t* count) noexcept {
  return guarded([&] {
    required(count, "the place for the count") =
        static_cast<size_t>(model_of(model).model().num_outputs);
  });
}

int32_t AOTInductorModelRun(AOTInductorModelOpaque* model,
                            AtenTensorOpaque** inputs,
                            AtenTensorOpaque** outputs) noexcept {
  return guarded([&] {
    BareModel& bare = model_of(model);
    const TakenInputs taken(inputs, static_cast<size_t>(bare.model().num_inputs));
    if (bare.model().num_outputs != 0) {
      required(outputs, "the array of outputs");
    }
    bare.run(inputs, outputs);
  });
}

int32_t AOTInductorModelRunMinimalArrayrefInterfaceV2(AOTInductorModelOpaque* model,
                                                      int32_t num_inputs,
                                                      const AOTInductorArrayRefTensor* inputs,
                                                      int32_t num_outputs,
                                                      AOTInductorArrayRefTensor* outputs) noexcept {
  return guarded([&] {
    BareModel& bare = model_of(model);
    require_count("inputs", bare.model().num_inputs, static_cast<size_t>(num_inputs));
    require_count("outputs", bare.model().num_outputs, static_cast<size_t>(num_outputs));
    if ((num_inputs != 0 && inputs == nullptr) || (num_outputs != 0 && outputs == nullptr)) {
      throw Failure("an array of tensors is null");
    }
    bare.run(inputs, outputs);
  });
}

int32_t AOTInductorModelUpdateConstantsMap(AOTInductorModelOpaque* model,
                                           AOTInductorConstantMap* map) noexcept {
  return guarded([&] {
    const auto pairs = pairs_of(map);
    model_of(model).take_constants(pairs.data(), pairs.size());
  });
}

int32_t AOTInductorModelUpdateConstantsMapV2(AOTInductorModelOpaque* model,
                                             const AOTInductorConstantMapEntry* pairs,
                                             int32_t num_pairs) noexcept {
  return guarded([&] {
    if (num_pairs < 0 || (num_pairs > 0 && pairs == nullptr)) {
      throw Failure("the array of constants is null or its length negative");
    }
    model_of(model).take_constants(pairs, static_cast<size_t>(num_pairs));
  });
}

}  // extern "C"

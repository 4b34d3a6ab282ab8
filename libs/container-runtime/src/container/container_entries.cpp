// The entries that make, run and describe a container.

#include <cstring>
#include <memory>
#include <string_view>

#include "container/entry.hpp"
#include "container/geometry.hpp"

namespace kiln::container {
namespace {

// The index in "cuda:1"; -1, the current device, in "cuda".
std::int32_t device_index_in(const char* device, const KilnModel& model) {
  const std::string_view text = device;
  const std::size_t colon = text.find(':');
  const std::string expected = device_name(model.device_type);
  if (text.substr(0, colon) != expected) {
    throw Failure("the model was compiled for " + expected + ", not for " + device);
  }
  if (colon == std::string_view::npos) {
    return -1;
  }
  std::int32_t index = 0;
  const std::string_view digits = text.substr(colon + 1);
  for (const char digit : digits) {
    if (digit < '0' || digit > '9' || index > 1000) {
      throw Failure(std::string("there is no device ") + device);
    }
    index = index * 10 + (digit - '0');
  }
  if (digits.empty()) {
    throw Failure(std::string("there is no device ") + device);
  }
  return index;
}

// What a caller gives a run.
struct Arguments {
  AtenTensorHandle const* inputs;
  std::size_t num_inputs;
  AtenTensorHandle* outputs;
  std::size_t num_outputs;
};

template <class Run>
std::int32_t run(AOTInductorModelContainerOpaque* handle,
                 const Run& run_in,
                 const Arguments& given) noexcept {
  return guarded([&] {
    Container& container = container_of(handle);
    const KilnModel& model = container.model();
    require_count("inputs", model.num_inputs, given.num_inputs);
    require_count("outputs", model.num_outputs, given.num_outputs);
    require_handles("input", given.inputs, given.num_inputs);
    if (given.num_outputs != 0 && given.outputs == nullptr) {
      throw Failure("the array of outputs is null");
    }
    if (model.check_inputs != 0) {
      check_inputs(model, container.device().index(), given.inputs);
    }
    FreshOutputs fresh(given.outputs, given.num_outputs);
    run_in(container);
    fresh.keep();
  });
}

const KilnTensor& tensor_at(const KilnTensor* tensors, std::int32_t count, std::size_t index) {
  if (index >= static_cast<std::size_t>(count)) {
    throw Failure("index " + std::to_string(index) + " is out of range: there are " +
                  std::to_string(count));
  }
  return tensors[index];
}

}  // namespace
}  // namespace kiln::container

using namespace kiln::container;

extern "C" {

int32_t AOTInductorModelContainerCreate(AOTInductorModelContainerOpaque** container,
                                        size_t num_models,
                                        bool is_cpu,
                                        const char* cubin_dir) noexcept {
  return AOTInductorModelContainerCreateWithDevice(
      container, num_models, is_cpu ? "cpu" : "cuda", cubin_dir);
}

int32_t AOTInductorModelContainerCreateWithDevice(AOTInductorModelContainerOpaque** container,
                                                  size_t num_models,
                                                  const char* device,
                                                  const char* /*cubin_dir*/) noexcept {
  return guarded([&] {
    AOTInductorModelContainerOpaque*& result = required(container, "the place for the container");
    const std::int32_t index = device_index_in(&required(device, "the device's name"), kiln_model);
    auto made = std::make_unique<Container>(kiln_model, num_models, index);
    result = reinterpret_cast<AOTInductorModelContainerOpaque*>(made.release());
  });
}

int32_t AOTInductorModelContainerDelete(AOTInductorModelContainerOpaque* container) noexcept {
  return guarded([&] { delete &container_of(container); });
}

int32_t AOTInductorModelContainerRun(AOTInductorModelContainerOpaque* container,
                                     AtenTensorOpaque** inputs,
                                     size_t num_inputs,
                                     AtenTensorOpaque** outputs,
                                     size_t num_outputs,
                                     AOTInductorStreamOpaque* stream,
                                     AOTIProxyExecutorOpaque* proxy_executor) noexcept {
  const TakenInputs taken(inputs, num_inputs);
  return run(container,
             [&](Container& self) { self.run(inputs, outputs, {stream, proxy_executor}); },
             {inputs, num_inputs, outputs, num_outputs});
}

int32_t AOTInductorModelContainerRunSingleThreaded(
    AOTInductorModelContainerOpaque* container,
    AtenTensorOpaque** inputs,
    size_t num_inputs,
    AtenTensorOpaque** outputs,
    size_t num_outputs,
    AOTInductorStreamOpaque* stream,
    AOTIProxyExecutorOpaque* proxy_executor) noexcept {
  const TakenInputs taken(inputs, num_inputs);
  return run(
      container,
      [&](Container& self) { self.run_single_threaded(inputs, outputs, {stream, proxy_executor}); },
      {inputs, num_inputs, outputs, num_outputs});
}

int32_t KilnContainerRunBorrowed(AOTInductorModelContainerOpaque* container,
                                 AtenTensorOpaque* const* inputs,
                                 size_t num_inputs,
                                 AtenTensorOpaque** outputs,
                                 size_t num_outputs,
                                 AOTInductorStreamOpaque* stream,
                                 AOTIProxyExecutorOpaque* proxy_executor) noexcept {
  return run(container,
             [&](Container& self) { self.run(inputs, outputs, {stream, proxy_executor}); },
             {inputs, num_inputs, outputs, num_outputs});
}

int32_t KilnContainerRunCaptured(AOTInductorModelContainerOpaque* container,
                                 AtenTensorOpaque* const* inputs,
                                 size_t num_inputs,
                                 AtenTensorOpaque** outputs,
                                 size_t num_outputs,
                                 AOTInductorStreamOpaque* stream,
                                 AOTIProxyExecutorOpaque* proxy_executor,
                                 void** capture) noexcept {
  return run(container,
             [&](Container& self) {
               required(capture, "the place for the capture") =
                   self.run_captured(inputs, outputs, {stream, proxy_executor});
             },
             {inputs, num_inputs, outputs, num_outputs});
}

int32_t KilnContainerReleaseCapture(AOTInductorModelContainerOpaque* container,
                                    void* capture) noexcept {
  return guarded([&] { container_of(container).release_capture(capture); });
}

int32_t KilnContainerCheck(AOTInductorModelContainerOpaque* container) noexcept {
  return guarded([&] { container_of(container).check(); });
}

int32_t KilnContainerIsInputMutated(AOTInductorModelContainerOpaque* container,
                                    size_t index,
                                    bool* is_mutated) noexcept {
  return answer(container, is_mutated, [&](const KilnModel& model) {
    return tensor_at(model.inputs, model.num_inputs, index).mutated != 0;
  });
}

int32_t KilnContainerMutatesConstants(AOTInductorModelContainerOpaque* container,
                                      bool* mutates) noexcept {
  return answer(
      container, mutates, [](const KilnModel& model) { return model.mutates_constants != 0; });
}

int32_t AOTInductorModelContainerGetNumInputs(AOTInductorModelContainerOpaque* container,
                                              size_t* count) noexcept {
  return answer(container, count, [](const KilnModel& model) { return model.num_inputs; });
}

int32_t AOTInductorModelContainerGetInputName(AOTInductorModelContainerOpaque* container,
                                              size_t index,
                                              const char** name) noexcept {
  return answer(container, name, [&](const KilnModel& model) {
    return tensor_at(model.inputs, model.num_inputs, index).name;
  });
}

int32_t AOTInductorModelContainerGetNumOutputs(AOTInductorModelContainerOpaque* container,
                                               size_t* count) noexcept {
  return answer(container, count, [](const KilnModel& model) { return model.num_outputs; });
}

int32_t AOTInductorModelContainerGetOutputName(AOTInductorModelContainerOpaque* container,
                                               size_t index,
                                               const char** name) noexcept {
  return answer(container, name, [&](const KilnModel& model) {
    return tensor_at(model.outputs, model.num_outputs, index).name;
  });
}

int32_t AOTInductorModelContainerGetCallSpec(AOTInductorModelContainerOpaque* container,
                                             const char** in_spec,
                                             const char** out_spec) noexcept {
  return guarded([&] {
    const KilnModel& model = container_of(container).model();
    required(in_spec, "the place for the input spec") = model.in_spec;
    required(out_spec, "the place for the output spec") = model.out_spec;
  });
}

int32_t AOTInductorGetLastError(const char** message) noexcept {
  if (message == nullptr) {
    return 1;
  }
  *message = last_failure();
  return 0;
}

}  // extern "C"

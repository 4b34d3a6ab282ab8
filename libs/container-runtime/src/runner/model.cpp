#include "model.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/container_runtime/package.hpp"
#include "package_layout.hpp"

namespace kiln::container_runtime {
namespace {

using Handle = AtenTensorOpaque*;
// Models with more inputs than this pay for one allocation.
using Handles = c10::SmallVector<Handle, 16>;

Handle handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<Handle>(const_cast<at::Tensor*>(&tensor));
}

Handles handles_of(const Tensors& tensors) {
  Handles handles;
  for (const at::Tensor& tensor : tensors) {
    handles.push_back(handle_of(tensor));
  }
  return handles;
}

// A handle is an at::Tensor made with new; whoever takes it over deletes it.
Handle new_handle(at::Tensor tensor) {
  return reinterpret_cast<Handle>(new at::Tensor(std::move(tensor)));
}

Tensors take(const Handles& handles) {
  Tensors tensors;
  tensors.reserve(handles.size());
  for (const Handle handle : handles) {
    auto* tensor = reinterpret_cast<at::Tensor*>(handle);
    tensors.push_back(std::move(*tensor));
    delete tensor;
  }
  return tensors;
}

std::string device_for(const Located& located, const RunnerOptions& options) {
  if (!options.device.empty()) {
    return options.device;
  }
  const auto found = located.metadata.find(kDeviceKey);
  return found != located.metadata.end() ? found->second : "cpu";
}

c10::Device parsed(const std::string& device) {
  try {
    return c10::Device(device);
  } catch (const c10::Error&) {
    throw Error(ErrorCode::kInvalidArgument, "there is no device '" + device + "'");
  }
}

std::size_t instances_for(const Located& located, const RunnerOptions& options) {
  if (options.single_threaded) {
    return 1;
  }
  if (options.instances != 0) {
    return options.instances;
  }
  const auto found = located.metadata.find(kInstancesKey);
  if (found == located.metadata.end()) {
    return std::max(1U, std::thread::hardware_concurrency());
  }
  const std::string& text = found->second;
  std::size_t wanted = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  if (fault != std::errc() || end != text.data() + text.size() || wanted == 0 ||
      wanted > kMostInstances) {
    throw Error(ErrorCode::kCorrupt,
                "the package says " + std::string(kInstancesKey) + " " + text +
                    ", which is not a number of instances from 1 to " +
                    std::to_string(kMostInstances));
  }
  return wanted;
}

}  // namespace

Runner::Model::Model(Located located, const RunnerOptions& options)
    : metadata(located.metadata), library_(located.library) {
  const std::string device = device_for(located, options);
  device_ = parsed(device);
  if (device_.type() != at::kCPU) {
    unpacked_ = std::move(located.unpacked);
  }
  instances = instances_for(located, options);
  if (located.weights) {
    if (entries().weights_at == nullptr) {
      Library::throw_too_old("weights that are mapped from the package");
    }
    library_.require(entries().weights_at(located.weights->file.c_str(), located.weights->offset),
                     "finding the weights");
  }
  if (ProxyHost::is_needed(located.library)) {
    proxy_ =
        std::make_unique<ProxyHost>(located.library, instances, device, options.single_threaded);
    container_ = proxy_->container();
  } else {
    const std::string folder = located.library.parent_path().string();
    library_.require(entries().create(&container_, instances, device.c_str(), folder.c_str()),
                     "loading the model");
  }
  run_ = entries().run;
  if (options.single_threaded) {
    run_ = entries().run_single_threaded;
    if (run_ == nullptr) {
      Library::throw_too_old("runs without locks");
    }
  }
  try {
    describe();
    plan_graphs(options.cuda_graphs);
  } catch (...) {
    if (!proxy_) {
      entries().destroy(container_);
    }
    throw;
  }
  queue.emplace(instances, options.queue_capacity);
}

Runner::Model::~Model() {
  queue.reset();
  replayer_.reset();
  if (!proxy_) {
    entries().destroy(container_);
  }
}

c10::Stream Runner::Model::current_stream() const {
  const c10::impl::VirtualGuardImpl guard(device_.type());
  return guard.getStream(device_.has_index() ? device_ : guard.getDevice());
}

// The stream that the caller's thread uses: AOTInductor takes none for the device's default one.
AOTInductorStreamOpaque* Runner::Model::stream_or_current(void* stream) const {
  if (stream == nullptr && device_.type() != at::kCPU) {
    stream = current_stream().native_handle();
  }
  return static_cast<AOTInductorStreamOpaque*>(stream);
}

RunQueue::Call Runner::Model::call_in_current_stream() {
  if (device_.type() == at::kCPU) {
    return [this](Tensors&& inputs) { return run_boxed(std::move(inputs), nullptr); };
  }
  return [this, stream = current_stream()](Tensors&& inputs) {
    const c10::StreamGuard guard(stream);
    return run_boxed(std::move(inputs), nullptr);
  };
}

Tensors Runner::Model::run(const Tensors& inputs, void* stream) {
  return replayer_ ? replayer_->run(inputs, stream_or_current(stream))
                   : run_borrowed(inputs, stream);
}

Tensors Runner::Model::run_boxed(Tensors&& inputs, void* stream) {
  if (replayer_) {
    const Tensors taken = std::move(inputs);
    return replayer_->run(taken, stream_or_current(stream));
  }
  return run_taken(std::move(inputs), stream);
}

Tensors Runner::Model::run_borrowed(const Tensors& inputs, void* stream) const {
  if (entries().run_borrowed == nullptr || run_ != entries().run) {
    return run_taken(Tensors(inputs), stream);
  }
  Handles handles = handles_of(inputs);
  Handles outputs(output_names.size());
  library_.require(entries().run_borrowed(container_,
                                          handles.data(),
                                          handles.size(),
                                          outputs.data(),
                                          outputs.size(),
                                          stream_or_current(stream),
                                          executor()),
                   "running the model");
  return take(outputs);
}

Tensors Runner::Model::run_captured(const Tensors& inputs, void* stream, void*& capture) const {
  Handles handles = handles_of(inputs);
  Handles outputs(output_names.size());
  library_.require(entries().run_captured(container_,
                                          handles.data(),
                                          handles.size(),
                                          outputs.data(),
                                          outputs.size(),
                                          static_cast<AOTInductorStreamOpaque*>(stream),
                                          executor(),
                                          &capture),
                   "capturing the model");
  return take(outputs);
}

Tensors Runner::Model::run_taken(Tensors&& inputs, void* stream) const {
  require_input_count(inputs.size());
  Handles handles;
  for (at::Tensor& input : inputs) {
    handles.push_back(new_handle(std::move(input)));
  }
  inputs.clear();
  Handles outputs(output_names.size());
  library_.require(run_(container_,
                        handles.data(),
                        handles.size(),
                        outputs.data(),
                        outputs.size(),
                        stream_or_current(stream),
                        executor()),
                   "running the model");
  return take(outputs);
}

// AOTInductor throws through C on a wrong count.
void Runner::Model::require_input_count(std::size_t count) const {
  if (count != input_names.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "running the model failed: expected inputs vector size to be " +
                    std::to_string(input_names.size()) + ", but got " + std::to_string(count));
  }
}

void Runner::Model::describe() {
  std::size_t count = 0;
  const char* name = nullptr;
  library_.require(entries().num_inputs(container_, &count), "counting the inputs");
  for (std::size_t i = 0; i < count; ++i) {
    library_.require(entries().input_name(container_, i, &name), "naming an input");
    input_names.emplace_back(name);
  }
  library_.require(entries().num_outputs(container_, &count), "counting the outputs");
  for (std::size_t i = 0; i < count; ++i) {
    library_.require(entries().output_name(container_, i, &name), "naming an output");
    output_names.emplace_back(name);
  }
  library_.require(entries().num_constants(container_, &count), "counting the constants");
  for (std::size_t i = 0; i < count; ++i) {
    constants.push_back(describe_constant(i));
  }
}

NamedTensors Runner::Model::constant_values(bool inactive) const {
  if (entries().extract_constants == nullptr) {
    Library::throw_too_old("reading its constants");
  }
  // The type behind AOTInductorConstantMap.
  std::unordered_map<std::string, AtenTensorOpaque*> handles;
  library_.require(entries().extract_constants(
                       container_, reinterpret_cast<AOTInductorConstantMap*>(&handles), inactive),
                   "reading the constants");
  NamedTensors values;
  for (const auto& [name, handle] : handles) {
    values.emplace(name, *reinterpret_cast<at::Tensor*>(handle));
  }
  return values;
}

Constant Runner::Model::describe_constant(std::size_t index) const {
  const Entries& entry = entries();
  const char* name = nullptr;
  const char* fqn = nullptr;
  std::int32_t dtype = 0;
  std::int32_t kind = 0;
  std::size_t bytes = 0;
  bool folded = false;
  library_.require(entry.constant_name(container_, index, &name), "naming a constant");
  library_.require(entry.constant_fqn(container_, index, &fqn), "naming a constant");
  library_.require(entry.constant_dtype(container_, index, &dtype), "describing a constant");
  if (entry.constant_type != nullptr) {
    library_.require(entry.constant_type(container_, index, &kind), "describing a constant");
  }
  if (entry.constant_bytes != nullptr) {
    library_.require(entry.constant_bytes(container_, index, &bytes), "describing a constant");
  }
  if (entry.constant_folded != nullptr) {
    library_.require(entry.constant_folded(container_, index, &folded), "describing a constant");
  }
  return {name,
          fqn,
          static_cast<at::ScalarType>(dtype),
          folded ? ConstantKind::kFolded : static_cast<ConstantKind>(kind),
          bytes};
}

}  // namespace kiln::container_runtime

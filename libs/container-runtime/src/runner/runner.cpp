#include "kiln/container_runtime/runner.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "model.hpp"

namespace kiln::container_runtime {
namespace {

// The type behind AOTInductorConstantMap.
using HandleMap = std::unordered_map<std::string, AtenTensorOpaque*>;

AOTInductorConstantMap* opaque(HandleMap& map) {
  return reinterpret_cast<AOTInductorConstantMap*>(&map);
}

// By the model's own names, which every library understands.
HandleMap handles_by_name(const NamedTensors& values, const std::vector<Constant>& constants) {
  HandleMap map;
  for (const auto& [given, tensor] : values) {
    if (tensor.defined() && tensor.is_neg()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the value of '" + given +
                      "' has the negative bit, which no model sees: pass its resolve_neg()");
    }
    bool is_known = false;
    for (const Constant& constant : constants) {
      if (constant.name == given || constant.fqn == given) {
        is_known = true;
        map[constant.name] = reinterpret_cast<AtenTensorOpaque*>(const_cast<at::Tensor*>(&tensor));
      }
    }
    if (!is_known) {
      throw Error(ErrorCode::kInvalidArgument, "the model has no constant '" + given + "'");
    }
  }
  return map;
}

// A model reads memory, and does not see that a tensor's elements are minus what is there.
void require_plain(const Tensors& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].is_neg()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "input " + std::to_string(i) +
                      " has the negative bit, which no model sees: pass its resolve_neg()");
    }
  }
}

}  // namespace

Runner::Runner(const std::filesystem::path& path, RunnerOptions options)
    : model_(std::make_unique<Model>(locate(path, options), options)) {}

Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;

Runner::Model& Runner::model() const {
  if (!model_) {
    throw Error(ErrorCode::kInvalidArgument, "the model was moved to another object");
  }
  return *model_;
}

Tensors Runner::run(const Tensors& inputs, void* stream) {
  require_plain(inputs);
  return model().run(inputs, stream);
}

Tensors Runner::run_boxed(Tensors&& inputs, void* stream) {
  require_plain(inputs);
  return model().run_boxed(std::move(inputs), stream);
}

std::future<Tensors> Runner::run_async(Tensors inputs) {
  require_plain(inputs);
  return model().queue->push(model().call_in_current_stream(), std::move(inputs));
}

std::vector<Tensors> Runner::run_multiple(const std::vector<Tensors>& inputs) {
  std::for_each(inputs.begin(), inputs.end(), require_plain);
  return model().queue->run_all(model().call_in_current_stream(), inputs);
}

std::size_t Runner::cancel_queued() {
  return model().queue->cancel();
}

CudaGraphStatistics Runner::cuda_graphs() const {
  return model().cuda_graphs();
}

RunStatistics Runner::statistics() const {
  return model().queue->statistics();
}

const std::vector<std::string>& Runner::input_names() const {
  return model().input_names;
}

const std::vector<std::string>& Runner::output_names() const {
  return model().output_names;
}

CallSpec Runner::call_spec() const {
  const char* inputs = nullptr;
  const char* outputs = nullptr;
  model().library().require(model().entries().call_spec(model().container(), &inputs, &outputs),
                            "reading the call spec");
  return {inputs != nullptr ? inputs : "", outputs != nullptr ? outputs : ""};
}

const std::map<std::string, std::string>& Runner::metadata() const {
  return model().metadata;
}

std::size_t Runner::instances() const {
  return model().instances;
}

const std::vector<Constant>& Runner::constants() const {
  return model().constants;
}

NamedTensors Runner::constant_values(bool inactive) const {
  return model().constant_values(inactive);
}

void Runner::update_constants(const NamedTensors& values, UpdateOptions options) {
  const Entries& entries = model().entries();
  auto update = entries.update_constants;
  if (options.user_managed && options.from_cpu) {
    throw Error(ErrorCode::kInvalidArgument,
                "constants are either the user's own memory or copied from the cpu, not both");
  }
  if (options.user_managed) {
    update = entries.lend_constants;
  } else if (options.from_cpu) {
    update = entries.update_from_cpu;
  }
  if (update == nullptr) {
    Library::throw_too_old("this kind of update");
  }
  HandleMap handles = handles_by_name(values, model().constants);
  const auto change = [&] {
    model().library().require(
        update(model().container(), opaque(handles), options.inactive, options.full),
        "updating the constants");
  };
  if (options.inactive) {
    change();
  } else {
    model().change_constants(change);
  }
}

void Runner::run_const_fold(bool inactive, void* stream) {
  const auto change = [&] {
    model().library().require(
        model().entries().fold_constants(
            model().container(), inactive, model().stream_or_current(stream), model().executor()),
        "folding the constants");
  };
  if (inactive) {
    change();
  } else {
    model().change_constants(change);
  }
}

void Runner::swap_constants() {
  model().change_constants([this] {
    model().library().require(model().entries().swap_constants(model().container()),
                              "swapping the constants");
  });
}

void Runner::free_inactive() {
  if (model().entries().free_inactive == nullptr) {
    Library::throw_too_old("freeing its inactive constants");
  }
  model().library().require(model().entries().free_inactive(model().container()),
                            "freeing the inactive constants");
}

}  // namespace kiln::container_runtime

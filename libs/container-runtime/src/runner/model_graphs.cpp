// Graphs of a model on a GPU: whether there are any, and what they need of the container.

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "kiln/base/error.hpp"
#include "model.hpp"

namespace kiln::container_runtime {
namespace {

// Who did not ask for graphs is not to run out of memory for them.
ReplayLimits limits_of(CudaGraphs wanted, std::size_t instances) {
  return wanted == CudaGraphs::kOn
             ? ReplayLimits{.at_once = std::min<std::size_t>(instances, 8)}
             : ReplayLimits{
                   .warmups = 2, .shapes = 4, .at_once = std::min<std::size_t>(instances, 2)};
}

}  // namespace

void Runner::Model::plan_graphs(CudaGraphs wanted) {
  if (wanted == CudaGraphs::kOff || (wanted == CudaGraphs::kAuto && !device_.is_cuda())) {
    return;
  }
  if (!device_.is_cuda()) {
    throw Error(ErrorCode::kInvalidArgument,
                "cuda_graphs is on, but the model runs on " + device_.str());
  }
  bool mutates_constants = false;
  if (entries().run_captured == nullptr) {
    graphs_refusal_ = "the model library does not say what it writes to";
    return;
  }
  library_.require(entries().mutates_constants(container_, &mutates_constants),
                   "describing the model");
  if (mutates_constants) {
    graphs_refusal_ = "the model writes to its constants";
    return;
  }
  try {
    ReplayedModel model = replayed();
    std::unique_ptr<DeviceGraphs> graphs = open_cuda_graphs(model.device.index());
    replayer_ = std::make_unique<GraphReplayer>(
        std::move(model), std::move(graphs), limits_of(wanted, instances));
  } catch (const Error& missing) {
    if (wanted == CudaGraphs::kOn) {
      throw;
    }
    graphs_refusal_ = missing.what();
  }
}

ReplayedModel Runner::Model::replayed() const {
  ReplayedModel model{
      .run = [this](const Tensors& inputs, void* stream) { return run_borrowed(inputs, stream); },
      .run_captured = [this](const Tensors& inputs,
                             void* stream,
                             void*& capture) { return run_captured(inputs, stream, capture); },
      .check = [this] { library_.require(entries().check(container_), "running the model"); },
      .release =
          [this](void* capture) {
            static_cast<void>(entries().release_capture(container_, capture));
          },
      .constants =
          [this] {
            Tensors values;
            for (const auto& [name, value] : constant_values(/*inactive=*/false)) {
              values.push_back(value);
            }
            return values;
          },
      .mutated = std::vector<bool>(input_names.size()),
      .device =
          device_.has_index() ? device_ : c10::impl::VirtualGuardImpl(device_.type()).getDevice()};
  for (std::size_t i = 0; i < input_names.size(); ++i) {
    bool is_mutated = false;
    library_.require(entries().is_input_mutated(container_, i, &is_mutated), "describing an input");
    model.mutated[i] = is_mutated;
  }
  return model;
}

void Runner::Model::change_constants(const std::function<void()>& change) {
  if (replayer_) {
    replayer_->change_constants(change);
  } else {
    change();
  }
}

CudaGraphStatistics Runner::Model::cuda_graphs() const {
  if (replayer_) {
    return replayer_->statistics();
  }
  CudaGraphStatistics none;
  if (!graphs_refusal_.empty()) {
    none.refusals.push_back(graphs_refusal_);
  }
  return none;
}

}  // namespace kiln::container_runtime

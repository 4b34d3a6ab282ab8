#include "runner/graph_replayer.hpp"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

constexpr std::size_t kMostCaptures = 8;  // of one shape
constexpr std::size_t kMostFailures = 2;  // somebody may have changed the constants meanwhile

// A tensor's dtype, sizes and strides, without its memory.
at::Tensor geometry_of(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

at::Tensor empty_like(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
}

bool shares_storage(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && other.defined() && one.storage().data() != nullptr &&
         one.storage().data() == other.storage().data();
}

}  // namespace

// A graph, and the memory that it works on.
struct GraphReplayer::Recording {
  const ReplayedModel& model;
  std::unique_ptr<DeviceGraph> graph;
  void* capture = nullptr;
  Tensors copies = {};                      // by input; undefined where it is read in place
  std::vector<const void*> addresses = {};  // by input
  std::vector<bool> is_written = {};        // by input: that, or its memory as another input
  Tensors outputs = {};
  std::atomic<void*> stream = nullptr;  // of the last replay; read while another one runs
  std::mutex mutex = {};                // a replay is not to be mixed with another
  bool is_stale = false;

  Recording(const ReplayedModel& of, std::unique_ptr<DeviceGraph> made)
      : model(of), graph(std::move(made)) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    graph.reset();  // waits
    if (capture != nullptr) {
      model.release(capture);
    }
  }

  [[nodiscard]] bool reads(const Tensors& inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!copies[i].defined() && inputs[i].const_data_ptr() != addresses[i]) {
        return false;
      }
    }
    return true;
  }

  Tensors replay(const Tensors& inputs, void* on) {
    const c10::NoGradGuard no_grad;
    model.check();
    Tensors results(outputs.size());
    stream = on;
    graph->replay(
        on,
        [&] {
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (copies[i].defined()) {
              copies[i].copy_(inputs[i], /*non_blocking=*/true);
            }
          }
        },
        [&] {
          for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (outputs[i].defined()) {
              results[i] = empty_like(outputs[i]).copy_(outputs[i], /*non_blocking=*/true);
            }
          }
        });
    return results;
  }
};

// The calls whose inputs have the same sizes and strides.
struct GraphReplayer::Shape {
  Tensors geometry = {};  // by input
  std::size_t calls = 0;
  std::vector<const void*> addresses = {};  // by input: where it was in the last call
  std::vector<bool> has_moved = {};         // by input
  std::size_t captures = 0;
  std::size_t failures = 0;
  std::vector<std::shared_ptr<Recording>> recordings = {};

  [[nodiscard]] bool holds(const Tensors& inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor& given = inputs[i];
      const at::Tensor& expected = geometry[i];
      if (given.scalar_type() != expected.scalar_type() || given.sizes() != expected.sizes() ||
          given.strides() != expected.strides()) {
        return false;
      }
    }
    return true;
  }
};

GraphReplayer::GraphReplayer(ReplayedModel model,
                             std::unique_ptr<DeviceGraphs> graphs,
                             ReplayLimits limits)
    : model_(std::move(model)), graphs_(std::move(graphs)), limits_(limits) {}

GraphReplayer::~GraphReplayer() = default;

Tensors GraphReplayer::run(const Tensors& inputs, void* stream) {
  Shape* shape = nullptr;
  std::shared_ptr<Recording> recording;
  if (is_fit(inputs) && !graphs_->is_capturing(stream)) {
    const std::lock_guard lock(mutex_);
    shape = find_or_add(inputs);
    if (shape != nullptr) {
      note_addresses(*shape, inputs);
      recording = recording_for(*shape, inputs, stream);
    }
    ++(recording != nullptr ? statistics_.replays : statistics_.plain_runs);
  }
  if (recording != nullptr) {
    const std::lock_guard lock(recording->mutex);
    if (!recording->is_stale) {
      return recording->replay(inputs, stream);
    }
  }
  Tensors results = model_.run(inputs, stream);
  if (shape != nullptr && recording == nullptr) {
    // On the thread that has just run the model: what libtorch makes for a thread is there.
    const std::lock_guard lock(mutex_);
    capture_if_due(*shape, inputs);
  }
  return results;
}

// Whether the inputs are such that a copy of them, byte by byte, means the same. What is not is
// left to the model, which may refuse it.
bool GraphReplayer::is_fit(const Tensors& inputs) const {
  return inputs.size() == model_.mutated.size() &&
         std::ranges::all_of(inputs, [this](const at::Tensor& input) {
           return input.defined() && input.layout() == at::kStrided &&
                  input.device() == model_.device && !input.is_conj() && !input.is_neg();
         });
}

GraphReplayer::Shape* GraphReplayer::find_or_add(const Tensors& inputs) {
  for (const auto& shape : shapes_) {
    if (shape->holds(inputs)) {
      return shape.get();
    }
  }
  if (shapes_.size() == limits_.shapes) {
    return nullptr;
  }
  auto added = std::make_unique<Shape>();
  for (const at::Tensor& input : inputs) {
    added->geometry.push_back(geometry_of(input));
    added->addresses.push_back(input.const_data_ptr());
  }
  added->has_moved.resize(inputs.size());
  shapes_.push_back(std::move(added));
  return shapes_.back().get();
}

void GraphReplayer::note_addresses(Shape& shape, const Tensors& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const void* const now = inputs[i].const_data_ptr();
    shape.has_moved[i] = shape.has_moved[i] || now != shape.addresses[i];
    shape.addresses[i] = now;
  }
}

// None if this call is to run as it is.
std::shared_ptr<GraphReplayer::Recording> GraphReplayer::recording_for(const Shape& shape,
                                                                       const Tensors& inputs,
                                                                       void* stream) const {
  std::shared_ptr<Recording> busy;
  std::size_t fit = 0;
  for (const auto& recording : shape.recordings) {
    if (recording->reads(inputs)) {
      if (recording->stream == stream || recording->graph->is_idle()) {
        return recording;
      }
      busy = recording;
      ++fit;
    }
  }
  return fit >= limits_.at_once || shape.captures == kMostCaptures ? busy : nullptr;
}

void GraphReplayer::capture_if_due(Shape& shape, const Tensors& inputs) {
  if (++shape.calls <= limits_.warmups || shape.captures == kMostCaptures ||
      shape.failures == kMostFailures) {
    return;
  }
  // What a graph reads in place and has moved will hardly come back.
  std::erase_if(shape.recordings, [&](const auto& recording) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!recording->copies[i].defined() && shape.has_moved[i] && !recording->is_written[i]) {
        return true;
      }
    }
    return false;
  });
  try {
    shape.recordings.push_back(capture(shape, inputs));
  } catch (const std::exception& failure) {
    const std::string text = failure.what();
    if (++shape.failures == kMostFailures) {
      statistics_.refusals.push_back(text.substr(0, text.find('\n')));
    }
  }
}

std::shared_ptr<GraphReplayer::Recording> GraphReplayer::capture(Shape& shape,
                                                                 const Tensors& inputs) {
  ++shape.captures;
  const c10::NoGradGuard no_grad;
  auto recording = std::make_shared<Recording>(model_, graphs_->make());
  recording->copies.resize(inputs.size());
  Tensors used = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    recording->addresses.push_back(inputs[i].const_data_ptr());
    recording->is_written.push_back(std::ranges::any_of(inputs, [&](const at::Tensor& other) {
      return model_.mutated[static_cast<std::size_t>(&other - inputs.data())] &&
             (&other == &inputs[i] || shares_storage(inputs[i], other));
    }));
    if (shape.has_moved[i] && !recording->is_written[i] &&
        inputs[i].is_non_overlapping_and_dense()) {
      recording->copies[i] = empty_like(inputs[i]);
      used[i] = recording->copies[i];
    }
  }
  recording->graph->capture([&](void* stream) {
    recording->outputs = model_.run_captured(used, stream, recording->capture);
  });
  if (const std::string reason = reason_not_to_replay(*recording, used); !reason.empty()) {
    throw Error(ErrorCode::kUnsupported, reason);
  }
  ++statistics_.captures;
  return recording;
}

// A copy of a result would not be what the model returns where that is memory of somebody else.
std::string GraphReplayer::reason_not_to_replay(const Recording& recording,
                                                const Tensors& inputs) const {
  const auto is_shared = [&](const at::Tensor& output, const Tensors& others) {
    return std::ranges::any_of(others, [&](const at::Tensor& other) {
      return &other != &output && shares_storage(output, other);
    });
  };
  const Tensors constants = model_.constants();
  for (std::size_t i = 0; i < recording.outputs.size(); ++i) {
    const at::Tensor& output = recording.outputs[i];
    const std::string name = "output " + std::to_string(i);
    if (is_shared(output, inputs)) {
      return name + " is memory of an input";
    }
    if (is_shared(output, constants)) {
      return name + " is memory of a constant";
    }
    if (is_shared(output, recording.outputs)) {
      return name + " is memory of another output";
    }
  }
  return {};
}

void GraphReplayer::change_constants(const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  for (const auto& shape : shapes_) {
    for (const auto& recording : shape->recordings) {
      const std::lock_guard replays(recording->mutex);
      recording->is_stale = true;
      recording->graph.reset();  // waits for the device
    }
    shape->recordings.clear();
    shape->calls = shape->captures = shape->failures = 0;
  }
  change();
}

CudaGraphStatistics GraphReplayer::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace kiln::container_runtime

// Runs a model by replaying graphs of its earlier runs. A replay costs the host one launch, where a
// run costs one for each kernel.
//
// A graph reads and writes fixed addresses. An input that lay at another address in the first calls
// is copied into memory of the graph's own before each replay. One that did not move, such as a
// parameter, is read where it is, and so is every input that the model writes to; if it moves after
// all, another graph is captured. Results are copied out of the graph's memory into new tensors: no
// later replay changes what a caller holds.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kiln/container_runtime/runner.hpp"
#include "runner/device_graph.hpp"

namespace kiln::container_runtime {

/// What a replayer needs of a model.
struct ReplayedModel {
  std::function<Tensors(const Tensors& inputs, void* stream)> run;
  /// Runs while `stream` is being captured; `capture` stands for what the graph uses of the model.
  std::function<Tensors(const Tensors& inputs, void* stream, void*& capture)> run_captured;
  std::function<void()> check;                 ///< Throws what earlier runs found wrong.
  std::function<void(void* capture)> release;  ///< Replays are over.
  std::function<Tensors()> constants;          ///< The active ones.
  std::vector<bool> mutated;                   ///< By input: whether a run writes to it.
  c10::Device device;                          ///< Where it runs.
};

/// How many graphs there may be: each has memory of its own for as long as it is there.
struct ReplayLimits {
  std::size_t warmups = 1;  ///< Runs of a shape before the one that it is captured in.
  std::size_t shapes = 16;
  std::size_t at_once = 8;  ///< Graphs of one shape for runs that overlap.
};

/// One model's graphs. May be called from many threads.
class GraphReplayer {
 public:
  GraphReplayer(ReplayedModel model, std::unique_ptr<DeviceGraphs> graphs, ReplayLimits limits);
  ~GraphReplayer();
  GraphReplayer(const GraphReplayer&) = delete;
  GraphReplayer& operator=(const GraphReplayer&) = delete;

  /// What the model's own run returns.
  Tensors run(const Tensors& inputs, void* stream);

  /// Forgets all graphs, waits until none is at work, and changes the model's constants.
  void change_constants(const std::function<void()>& change);

  [[nodiscard]] CudaGraphStatistics statistics() const;

 private:
  struct Recording;
  struct Shape;

  [[nodiscard]] bool is_fit(const Tensors& inputs) const;
  Shape* find_or_add(const Tensors& inputs);
  std::shared_ptr<Recording> recording_for(const Shape& shape,
                                           const Tensors& inputs,
                                           void* stream) const;
  void capture_if_due(Shape& shape, const Tensors& inputs);
  std::shared_ptr<Recording> capture(Shape& shape, const Tensors& inputs);
  std::string reason_not_to_replay(const Recording& recording, const Tensors& inputs) const;
  static void note_addresses(Shape& shape, const Tensors& inputs);

  const ReplayedModel model_;
  const std::unique_ptr<DeviceGraphs> graphs_;
  const ReplayLimits limits_;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  CudaGraphStatistics statistics_;
};

}  // namespace kiln::container_runtime

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

/// One model's graphs. May be called from many threads.
class GraphReplayer {
 public:
  /// A shape is captured in the run after so many `warmups`, at most `most_at_once` times for runs
  /// that overlap.
  GraphReplayer(ReplayedModel model,
                std::unique_ptr<DeviceGraphs> graphs,
                std::size_t warmups,
                std::size_t most_at_once);
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
  const std::size_t warmups_;
  const std::size_t most_at_once_;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  CudaGraphStatistics statistics_;
};

}  // namespace kiln::container_runtime

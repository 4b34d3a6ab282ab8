// What the runner needs of a device to replay runs. libkiln-cuda-graphs.so has it for CUDA, on
// libtorch's own graphs: it is built where CUDA's headers are and opened when it is wanted, so that
// the runner needs neither.

#pragma once

#include <functional>
#include <memory>

namespace kiln::container_runtime {

/// Work that a device was given, to be given to it again as a whole.
class DeviceGraph {
 public:
  /// Waits until the last replay is done.
  virtual ~DeviceGraph() = default;

  /// Captures what `work` gives to the stream that it is called with, none of which is done. Memory
  /// that libtorch hands out meanwhile belongs to the graph. Throws what `work` throws, and where
  /// it did what cannot be captured; the graph is then of no use, and everything else is as before.
  virtual void capture(const std::function<void(void* stream)>& work) = 0;

  /// Gives the work to `stream`, with what `before` and `after` give to the current stream, which
  /// it is meanwhile. All of it comes after the replay before, whatever stream that was in.
  virtual void replay(void* stream,
                      const std::function<void()>& before,
                      const std::function<void()>& after) = 0;

  /// Whether the device has done the last replay.
  [[nodiscard]] virtual bool is_idle() const = 0;
};

/// The graphs of one device.
class DeviceGraphs {
 public:
  virtual ~DeviceGraphs() = default;

  [[nodiscard]] virtual std::unique_ptr<DeviceGraph> make() = 0;  ///< One that is empty.

  /// Whether somebody else is capturing `stream`.
  [[nodiscard]] virtual bool is_capturing(void* stream) const = 0;
};

/// The graphs of a GPU. Throws `Error` with `kUnsupported` that says what is missing if there is no
/// library for them.
[[nodiscard]] std::unique_ptr<DeviceGraphs> open_cuda_graphs(int device_index);

/// The library's one entry. Its name changes with the declarations above.
inline constexpr const char* kCudaGraphsEntry = "kiln_cuda_graphs_1";

}  // namespace kiln::container_runtime

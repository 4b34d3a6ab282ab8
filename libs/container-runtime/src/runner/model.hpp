// What a Runner holds: the library, a container made by it, and what the container says of itself.

#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph_replayer.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "library.hpp"
#include "proxy.hpp"
#include "run_queue.hpp"

namespace kiln::container_runtime {

/// Where the weights of a library are, if not behind it.
struct WeightsPlace {
  std::filesystem::path file;
  std::uint64_t offset = 0;
};

/// A library on disk, found from what the user named.
struct Located {
  std::filesystem::path library;
  std::map<std::string, std::string> metadata;
  std::optional<TemporaryDirectory> unpacked;
  std::optional<WeightsPlace> weights;  // stayed in the package
};

/// Finds the library in `path`: a library, a package or a folder.
[[nodiscard]] Located locate(const std::filesystem::path& path, const RunnerOptions& options);

/// One container, mapped and made until destruction.
class Runner::Model {
 public:
  Model(Located located, const RunnerOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Tensors run(const Tensors& inputs, void* stream);
  Tensors run_boxed(Tensors&& inputs, void* stream);

  /// Does `change`, after which the active constants are others.
  void change_constants(const std::function<void()>& change);
  [[nodiscard]] NamedTensors constant_values(bool inactive) const;

  [[nodiscard]] CudaGraphStatistics cuda_graphs() const;

  [[nodiscard]] AOTInductorStreamOpaque* stream_or_current(void* stream) const;

  /// A call for the queue that gives its work to the stream that is this thread's current one now.
  [[nodiscard]] RunQueue::Call call_in_current_stream();

  [[nodiscard]] const Entries& entries() const noexcept { return library_.entries(); }
  [[nodiscard]] const Library& library() const noexcept { return library_; }
  [[nodiscard]] AOTInductorModelContainerOpaque* container() const noexcept { return container_; }
  [[nodiscard]] AOTIProxyExecutorOpaque* executor() const noexcept {
    return proxy_ ? proxy_->executor() : nullptr;
  }

  std::map<std::string, std::string> metadata;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  std::vector<Constant> constants;
  std::size_t instances = 0;
  std::optional<RunQueue> queue;  // last: its tasks use the rest

 private:
  void describe();
  void plan_graphs(CudaGraphs wanted);
  [[nodiscard]] ReplayedModel replayed() const;
  [[nodiscard]] c10::Stream current_stream() const;
  [[nodiscard]] Tensors run_borrowed(const Tensors& inputs, void* stream) const;
  [[nodiscard]] Tensors run_taken(Tensors&& inputs, void* stream) const;
  [[nodiscard]] Tensors run_captured(const Tensors& inputs, void* stream, void*& capture) const;
  [[nodiscard]] Constant describe_constant(std::size_t index) const;
  void require_input_count(std::size_t count) const;

  // AOTInductor reads its cubins at the first run; else this is gone once the library is mapped.
  std::optional<TemporaryDirectory> unpacked_;
  Library library_;
  c10::Device device_{at::kCPU};
  std::unique_ptr<ProxyHost> proxy_;
  AOTInductorModelContainerOpaque* container_ = nullptr;
  decltype(Entries::run) run_ = nullptr;
  std::string graphs_refusal_;               // why there are none, if they were wanted
  std::unique_ptr<GraphReplayer> replayer_;  // before the container goes
};

}  // namespace kiln::container_runtime

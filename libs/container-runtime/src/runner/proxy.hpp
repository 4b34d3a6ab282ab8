// The host's side of ops that a model leaves to the dispatcher (custom ops, mostly).

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

struct AOTInductorModelContainerOpaque;
struct AOTIProxyExecutorOpaque;

namespace kiln::container_runtime {

/// A container together with the executor for the ops that the model calls back for.
///
/// libtorch does not export its executor, but its runner makes one when the library has a JSON file
/// beside it, and shows both to a derived class. So where there is such a file, libtorch's runner
/// makes the container and Kiln's calls it.
class ProxyHost {
 public:
  /// True if the library at `path` has such ops.
  [[nodiscard]] static bool is_needed(const std::filesystem::path& path);

  /// Throws `Error` if libtorch refuses.
  ProxyHost(const std::filesystem::path& path,
            std::size_t instances,
            const std::string& device,
            bool single_threaded);
  ~ProxyHost();

  [[nodiscard]] AOTInductorModelContainerOpaque* container() const noexcept;
  [[nodiscard]] AOTIProxyExecutorOpaque* executor() const noexcept;

 private:
  class TorchRunner;
  std::unique_ptr<TorchRunner> runner_;
};

}  // namespace kiln::container_runtime

#include "proxy.hpp"

#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {

class ProxyHost::TorchRunner : public torch::inductor::AOTIModelContainerRunner {
 public:
  TorchRunner(const std::filesystem::path& path,
              std::size_t instances,
              const std::string& device,
              bool single_threaded)
      : AOTIModelContainerRunner(
            path.string(), instances, device, path.parent_path().string(), single_threaded) {}

  [[nodiscard]] AOTInductorModelContainerOpaque* container() const { return container_handle_; }
  [[nodiscard]] AOTIProxyExecutorOpaque* executor() const { return proxy_executor_handle_; }
};

bool ProxyHost::is_needed(const std::filesystem::path& path) {
  return std::filesystem::exists(std::filesystem::path(path).replace_extension(".json"));
}

ProxyHost::ProxyHost(const std::filesystem::path& path,
                     std::size_t instances,
                     const std::string& device,
                     bool single_threaded) {
  try {
    runner_ = std::make_unique<TorchRunner>(path, instances, device, single_threaded);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kIncompatible, path.string() + " cannot be loaded: " + error.what());
  }
}

ProxyHost::~ProxyHost() = default;

AOTInductorModelContainerOpaque* ProxyHost::container() const noexcept {
  return runner_->container();
}

AOTIProxyExecutorOpaque* ProxyHost::executor() const noexcept {
  return runner_->executor();
}

}  // namespace kiln::container_runtime

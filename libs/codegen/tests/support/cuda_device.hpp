// A GPU, through CUDA's driver, which is opened when it is asked for.

#pragma once

#include <cstddef>
#include <functional>
#include <memory_resource>
#include <string>

#include "kiln/ir/graph.hpp"

namespace kiln::codegen::testing {

/// The first GPU, with kernels loaded and memory that both it and the CPU address.
class CudaDevice final : public std::pmr::memory_resource {
 public:
  /// Throws `Error` if there is no driver or no GPU.
  CudaDevice();
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  /// "sm_90"
  [[nodiscard]] std::string architecture() const;
  /// Kernels are looked up in `cubin` from now on.
  void load(const std::string& cubin);
  /// Memory of its own, for `free_device`.
  [[nodiscard]] void* allocate_zeros(std::size_t bytes);
  void free_device(void* memory);
  /// Runs a kernel of one argument some time.
  void enqueue(const char* kernel,
               long long grid_x,
               long long grid_y,
               unsigned width,
               unsigned rows,
               void* argument);
  /// The microseconds that what `work` enqueues takes: the least of several rounds, each long
  /// enough to be measured.
  [[nodiscard]] double time(const std::function<void()>& work);
  /// Waits for everything that is enqueued. Throws `Error` if a kernel failed.
  void synchronize();

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  struct Driver;
  const Driver& driver_;
  void* module_ = nullptr;
  int device_ = 0;
};

/// `text` with KILN_KERNEL replaced by `name`.
[[nodiscard]] std::string with_kernel_name(std::string text, const std::string& name);

/// What launchers need in front of them to run their kernels on a `CudaDevice`.
extern const char* const kLauncherPreamble;

/// Makes the launchers of a loaded library enqueue their kernels on `device`.
void bind_launchers(void* library, CudaDevice& device);

/// `graph` with all of its tensors on `device`.
[[nodiscard]] ir::Graph on_device(ir::Graph graph, ir::DeviceType device);

}  // namespace kiln::codegen::testing

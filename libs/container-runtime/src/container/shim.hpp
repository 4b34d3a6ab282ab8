// libtorch as the container sees it: the C shim, with ownership and errors in C++ terms.

#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <string>
#include <utility>

namespace kiln::container {

/// libtorch's message for the shim call that just failed on this thread; empty before 2.13.
[[nodiscard]] std::string shim_message();

/// Throws `Failure` with `what` and libtorch's message.
[[noreturn]] void throw_shim_failure(const char* what);

/// Throws unless the shim call succeeded.
inline void check(AOTITorchError code, const char* what) {
  if (code != AOTI_TORCH_SUCCESS) [[unlikely]] {
    throw_shim_failure(what);
  }
}

/// A tensor handle that is deleted with its owner.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorHandle handle) noexcept : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(other.release()) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) {
      aoti_torch_delete_tensor_object(handle_);
    }
  }

  [[nodiscard]] AtenTensorHandle get() const noexcept { return handle_; }
  AtenTensorHandle release() noexcept { return std::exchange(handle_, nullptr); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  AtenTensorHandle handle_ = nullptr;
};

/// Another handle on the same tensor.
[[nodiscard]] Tensor share(AtenTensorHandle handle);

/// Deletes `count` handles, null ones excepted, and sets them to null.
inline void delete_handles(AtenTensorHandle* handles, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (AtenTensorHandle handle = std::exchange(handles[i], nullptr); handle != nullptr) {
      aoti_torch_delete_tensor_object(handle);
    }
  }
}

/// Grad mode off on this thread for a scope.
class NoGrad {
 public:
  NoGrad() : was_enabled_(aoti_torch_grad_mode_is_enabled()) {
    if (was_enabled_) {
      aoti_torch_grad_mode_set_enabled(false);
    }
  }
  ~NoGrad() {
    if (was_enabled_) {
      aoti_torch_grad_mode_set_enabled(true);
    }
  }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool was_enabled_;
};

}  // namespace kiln::container

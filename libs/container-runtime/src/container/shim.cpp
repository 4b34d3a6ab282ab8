#include "container/shim.hpp"

#include "container/failure.hpp"

// New in 2.13; a library built against it must still load with an older libtorch.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace kiln::container {

std::string shim_message() {
  const char* message = torch_exception_get_what_without_backtrace != nullptr
                            ? torch_exception_get_what_without_backtrace()
                            : nullptr;
  return message != nullptr ? message : "";
}

void throw_shim_failure(const char* what) {
  std::string text = what;
  if (const std::string detail = shim_message(); !detail.empty()) {
    text += ": " + detail;
  }
  throw Failure(text);
}

Tensor share(AtenTensorHandle handle) {
  AtenTensorHandle result = nullptr;
  check(aoti_torch_new_tensor_handle(handle, &result), "a tensor handle cannot be copied");
  return Tensor(result);
}

}  // namespace kiln::container

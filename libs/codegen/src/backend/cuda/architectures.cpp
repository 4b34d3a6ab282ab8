#include "backend/cuda/architectures.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen::cuda {
namespace {

constexpr const char* kNameOne = "name the architecture to compile for, such as arch=sm_90";

// Of the driver's first device.
std::string native_architecture() {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    throw Error(ErrorCode::kUnsupported, std::string("there is no CUDA driver here: ") + kNameOne);
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto attribute =
      reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  int major = 0, minor = 0;
  if (init == nullptr || attribute == nullptr || init(0) != 0 ||
      attribute(&major, kMajor, 0) != 0 || attribute(&minor, kMinor, 0) != 0) {
    throw Error(ErrorCode::kUnsupported, std::string("there is no GPU here: ") + kNameOne);
  }
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

bool is_architecture(const std::string& name) {
  constexpr std::size_t kPrefix = 3;
  return name.starts_with("sm_") && name.size() >= kPrefix + 2 && name.size() <= kPrefix + 3 &&
         std::all_of(
             name.begin() + kPrefix, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::uint32_t capability_of(const std::string& architecture) {
  return static_cast<std::uint32_t>(std::stoul(architecture.substr(architecture.find('_') + 1)));
}

bool is_ptx(const std::string& architecture) {
  return architecture.starts_with("compute_");
}

std::string ptx_architecture(std::span<const std::string> architectures) {
  std::uint32_t newest = 0;
  for (const std::string& architecture : architectures) {
    newest = std::max(newest, capability_of(architecture));
  }
  return "compute_" + std::to_string(newest);
}

}  // namespace kiln::codegen::cuda

namespace kiln::codegen {

std::vector<std::string> resolve_architectures(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    const bool is_native = name == "native";
    if (!is_native && !cuda::is_architecture(name)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "'" + name +
                      "' is not a GPU architecture; use native, or names such as sm_80, sm_90 and "
                      "sm_100");
    }
    std::string resolved = is_native ? cuda::native_architecture() : name;
    if (std::ranges::find(result, resolved) == result.end()) {
      result.push_back(std::move(resolved));
    }
  }
  if (result.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("the architecture list is empty: ") + cuda::kNameOne);
  }
  return result;
}

}  // namespace kiln::codegen

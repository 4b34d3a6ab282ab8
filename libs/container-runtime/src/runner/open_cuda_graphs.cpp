#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/base/runtime_file.hpp"
#include "runner/device_graph.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_graphs(const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "CUDA graphs are not available: " + why);
}

}  // namespace

std::unique_ptr<DeviceGraphs> open_cuda_graphs(int device_index) {
#ifdef KILN_CUDA_GRAPHS
  const fs::path built = fs::path(KILN_CUDA_GRAPHS).parent_path();
#else
  const fs::path built;
#endif
  fs::path library;
  try {
    library = find_runtime_file("libkiln-cuda-graphs.so", built);
  } catch (const Error& missing) {
    refuse_graphs(std::string(missing.what()) +
                  " (it is built where CUDA's headers and a libtorch with CUDA are)");
  }
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    refuse_graphs(std::string(library) + " cannot be opened: " + dlerror());
  }
  const auto make =
      reinterpret_cast<DeviceGraphs* (*)(int device_index)>(dlsym(handle, kCudaGraphsEntry));
  if (make == nullptr) {
    refuse_graphs(std::string(library) + " belongs to another version of Kiln");
  }
  return std::unique_ptr<DeviceGraphs>(make(device_index));
}

}  // namespace kiln::container_runtime

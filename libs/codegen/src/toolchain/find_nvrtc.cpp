// Where NVRTC lies. It is not opened for that: what it compiled before may be in a cache.

#include <link.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "kiln/codegen/compile.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// The directory of the libtorch in this process, or nothing.
fs::path torch_directory() {
  fs::path result;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const fs::path path = info->dlpi_name;
        if (path.filename() != "libtorch_cpu.so") {
          return 0;
        }
        *static_cast<fs::path*>(found) = path.parent_path();
        return 1;
      },
      &result);
  return result;
}

std::vector<fs::path> places() {
  std::vector<fs::path> result;
  if (const fs::path torch = torch_directory(); !torch.empty()) {
    // Of Python's packages: torch/lib beside nvidia/cu13/lib, or one directory for each component.
    const fs::path packages = torch.parent_path().parent_path() / "nvidia";
    result.insert(result.end(),
                  {torch, packages / "cu13" / "lib", packages / "cuda_nvrtc" / "lib"});
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* toolkit = std::getenv(variable); toolkit != nullptr && *toolkit != '\0') {
      result.push_back(fs::path(toolkit) / "lib64");
    }
  }
  result.emplace_back("/usr/local/cuda/lib64");
  return result;
}

}  // namespace

std::string find_nvrtc() {
  if (const char* named = std::getenv("KILN_NVRTC"); named != nullptr && *named != '\0') {
    return named;
  }
  std::error_code failure;
  for (const fs::path& place : places()) {
    for (const char* name : kNames) {
      if (fs::is_regular_file(place / name, failure)) {
        return (place / name).string();
      }
    }
  }
  return kNames[0];
}

std::string nvrtc_stamp(const Options& options) {
  const std::string path = options.nvrtc.empty() ? find_nvrtc() : options.nvrtc;
  try {
    const fs::path file = fs::canonical(path);
    return file.string() + " " + std::to_string(fs::file_size(file)) + " " +
           std::to_string(fs::last_write_time(file).time_since_epoch().count());
  } catch (const fs::filesystem_error&) {
    return path;  // The dynamic linker knows where it is.
  }
}

}  // namespace kiln::codegen

#include <filesystem>

#include "kiln/base/runtime_file.hpp"
#include "kiln/codegen/compile.hpp"

namespace kiln::codegen {

std::filesystem::path find_runtime_archive(ir::DeviceType device) {
#ifdef KILN_RUNTIME_ARCHIVE
  const auto built = std::filesystem::path(KILN_RUNTIME_ARCHIVE).parent_path();
#else
  const std::filesystem::path built;
#endif
  return find_runtime_file(
      device == ir::DeviceType::kCuda ? "libkiln-container-cuda.a" : "libkiln-container.a", built);
}

}  // namespace kiln::codegen

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/codegen/compile.hpp"

namespace kiln::codegen {

std::filesystem::path find_runtime_archive(ir::DeviceType device) {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* directory = std::getenv("KILN_RUNTIME_DIR")) {
    places.emplace_back(directory);
  }
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    places.push_back(program.parent_path());
    places.push_back(program.parent_path().parent_path() / "lib");
  }
#ifdef KILN_RUNTIME_ARCHIVE
  places.push_back(fs::path(KILN_RUNTIME_ARCHIVE).parent_path());
#endif
  const std::string name =
      device == ir::DeviceType::kCuda ? "libkiln-container-cuda.a" : "libkiln-container.a";
  std::string searched;
  for (const fs::path& place : places) {
    const fs::path archive = place / name;
    if (fs::is_regular_file(archive, failure)) {
      return archive;
    }
    searched += (searched.empty() ? "" : ", ") + place.string();
  }
  throw Error(ErrorCode::kIo,
              name + " is not in " + searched + "; name its directory in $KILN_RUNTIME_DIR");
}

}  // namespace kiln::codegen

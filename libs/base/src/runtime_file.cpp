#include "kiln/base/runtime_file.hpp"

#include <cstdlib>
#include <system_error>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln {

std::filesystem::path find_runtime_file(const std::string& name,
                                        const std::filesystem::path& otherwise) {
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
  if (!otherwise.empty()) {
    places.push_back(otherwise);
  }
  std::string searched;
  for (const fs::path& place : places) {
    const fs::path file = place / name;
    if (fs::is_regular_file(file, failure)) {
      return file;
    }
    searched += (searched.empty() ? "" : ", ") + place.string();
  }
  throw Error(ErrorCode::kIo,
              name + " is not in " + searched + "; name its directory in $KILN_RUNTIME_DIR");
}

}  // namespace kiln

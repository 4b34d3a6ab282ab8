#include "kiln/base/runtime_file.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct AddedDirectories {
  std::mutex mutex;
  std::vector<fs::path> list;
};

AddedDirectories& added_directories() {
  static AddedDirectories directories;
  return directories;
}

// Empty if unknown.
fs::path running_program() {
  std::error_code failure;
  return fs::read_symlink("/proc/self/exe", failure);
}

// The shared library that this code is linked into; empty if unknown. For a program, the dynamic
// linker has the name that it was called by, which need not be a path.
fs::path own_library() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&find_runtime_file), &found) == 0 ||
      found.dli_fname == nullptr || *found.dli_fname != '/') {
    return {};
  }
  return found.dli_fname;
}

// An installed program must not depend on the directory that it was built in, which may contain
// another version by now.
bool is_in_build_tree([[maybe_unused]] const fs::path& program) {
#ifdef KILN_BUILD_TREE
  std::error_code failure;
  const fs::path root = fs::canonical(KILN_BUILD_TREE, failure);
  return !failure &&
         std::ranges::mismatch(root, program).in1 == root.end();  // All of its components agree.
#else
  return false;
#endif
}

std::vector<fs::path> places(const fs::path& built) {
  std::vector<fs::path> result;
  const auto add = [&](const fs::path& place) {
    if (std::ranges::find(result, place) == result.end()) {
      result.push_back(place);
    }
  };
  if (const char* directory = std::getenv("KILN_RUNTIME_DIR")) {
    add(directory);
  }
  const fs::path program = running_program();
  for (const fs::path& binary : {program, own_library()}) {
    if (!binary.empty()) {
      add(binary.parent_path());
      add(binary.parent_path().parent_path() / "lib");
      add(binary.parent_path().parent_path() / KILN_LIBRARY_DIRECTORY);
    }
  }
  AddedDirectories& added = added_directories();
  const std::lock_guard lock(added.mutex);
  std::ranges::for_each(added.list, add);
  if (!built.empty() && is_in_build_tree(program)) {
    add(built);
  }
  return result;
}

}  // namespace

bool add_runtime_directory(const fs::path& directory) {
  AddedDirectories& added = added_directories();
  const std::lock_guard lock(added.mutex);
  added.list.push_back(directory);
  return true;
}

fs::path find_runtime_file(const std::string& name, const fs::path& built) {
  std::string searched;
  for (const fs::path& place : places(built)) {
    const fs::path file = place / name;
    std::error_code failure;
    if (fs::is_regular_file(file, failure)) {
      return file;
    }
    searched += (searched.empty() ? "" : ", ") + place.string();
  }
  throw Error(ErrorCode::kIo,
              name + " is not in " + searched + "; name its directory in $KILN_RUNTIME_DIR");
}

}  // namespace kiln

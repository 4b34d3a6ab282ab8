#include "toolchain/precompiled_kernels.hpp"

#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

void remove_others(const fs::path& directory, const std::set<fs::path>& wanted) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (!wanted.contains(entry.path())) {
      remove_tree(entry.path());
    }
  }
}

}  // namespace

fs::path precompiled_kernels_beside(const fs::path& archive) {
  return archive.parent_path() / "kiln-kernels";
}

int precompile_kernels(const fs::path& directory,
                       std::span<const Unit> units,
                       const Compiler& compiler) {
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (failure) {
    throw Error(ErrorCode::kIo, "cannot create " + directory.string() + ": " + failure.message());
  }
  const auto place = [&](const Digest& key) { return directory / (key.hex() + ".o"); };
  const TemporaryDirectory scratch("kiln-kernels");
  BuildPlan missing;
  missing.directory = scratch.path();
  std::set<fs::path> wanted;
  for (const Unit& unit : units) {
    const fs::path object = place(object_key(compiler, unit));
    wanted.insert(object);
    if (!fs::is_regular_file(object, failure)) {
      missing.units.push_back(unit);
      missing.units.back().name = "kernel" + std::to_string(missing.units.size() - 1);
    }
  }
  Options options;
  options.objects.put = [&](const Digest& key, std::string_view object) {
    write_file_atomically(place(key), object);
  };
  (void)compile_units(compiler, missing, options);
  remove_others(directory, wanted);
  return static_cast<int>(missing.units.size());
}

}  // namespace kiln::codegen

#include "toolchain/precompiled_kernels.hpp"

#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/cpu/kernel_units.hpp"
#include "backend/cpu/kernels/shape_generic_sources.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "toolchain/build.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

std::vector<Unit> shared_units(const Target& target) {
  std::vector<Kernel> kernels;
  for (std::string& text : shared_texts(target)) {
    kernels.push_back({.source = std::move(text), .comment = {}, .shared = true});
  }
  return group_kernels(kernels, target).units;
}

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

int make_precompiled_kernels(const fs::path& directory,
                             std::span<const Target> targets,
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
  for (const Target& target : targets) {
    for (Unit& unit : shared_units(target)) {
      const fs::path object = place(object_key(compiler, unit));
      wanted.insert(object);
      if (!fs::is_regular_file(object, failure)) {
        unit.name = "kernel" + std::to_string(missing.units.size());
        missing.units.push_back(std::move(unit));
      }
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

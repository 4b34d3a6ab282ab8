#include <array>
#include <fstream>
#include <string_view>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/mapped_file.hpp"
#include "kiln/container_runtime/package.hpp"
#include "model.hpp"
#include "package_checksums.hpp"
#include "package_layout.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_to_verify(const fs::path& library) {
  throw Error(ErrorCode::kUnsupported,
              "the weights of " + library.string() +
                  " cannot be verified: there is no metadata with its checksum beside it");
}

// The model in an unpacked package, whose root folder may be `path` or the one folder in it.
Located model_in(const fs::path& path, const std::string& model_name) {
  std::vector<fs::path> roots{path};
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory()) {
      roots.push_back(entry.path());
    }
  }
  for (const fs::path& root : roots) {
    const fs::path folder = root / model_folder(model_name);
    if (!fs::is_directory(folder)) {
      continue;
    }
    Located result{{}, {}, std::nullopt, std::nullopt};
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string file = entry.path().string();
      if (file.ends_with(kLibrarySuffix)) {
        result.library = entry.path();
      } else if (file.ends_with(kMetadataSuffix)) {
        add_metadata(result.metadata, read_file(entry.path()), file);
      }
    }
    if (!result.library.empty()) {
      return result;
    }
  }
  throw Error(ErrorCode::kCorrupt,
              path.string() + " has no library for the model '" + model_name + "'");
}

// A folder has what the package said of its library.
void verify_in_folder(const Located& located, bool with_weights) {
  const auto code = find_checksum(located.metadata, kCodeChecksumKey);
  const auto whole = find_checksum(located.metadata, kLibraryChecksumKey);
  if (with_weights && !whole) {
    refuse_to_verify(located.library);
  }
  const MappedFile file(located.library);
  const auto matches = [&](const SizedChecksum& sum) { return begins_with(file.bytes(), sum); };
  if (code && !matches(*code)) {
    throw Error(ErrorCode::kCorrupt,
                located.library.string() + " is damaged: code checksum mismatch");
  }
  if (with_weights && (file.bytes().size() != whole->bytes || !matches(*whole))) {
    throw Error(ErrorCode::kCorrupt, located.library.string() + " is damaged: checksum mismatch");
  }
}

bool is_package(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  if (!file || fs::is_directory(path)) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be read");
  }
  file.read(magic.data(), magic.size());
  // A file that is neither is refused when it is loaded as a library, with a better message.
  return std::string_view(magic.data(), magic.size()) == "PK\x03\x04" || path.extension() == ".pt2";
}

}  // namespace

Located locate(const fs::path& path, const RunnerOptions& options) {
  if (fs::is_directory(path)) {
    Located result = model_in(path, options.model_name);
    verify_in_folder(result, options.verify_weights);
    return result;
  }
  if (!is_package(path)) {
    if (options.verify_weights) {
      refuse_to_verify(path);
    }
    return {path, {}, std::nullopt, std::nullopt};
  }
  const Package package = open_package(path);
  Located result{
      {}, package.metadata(options.model_name), TemporaryDirectory("kiln-model"), std::nullopt};
  const UnpackedModel model = package.unpack(
      options.model_name, result.unpacked->path(), {.verify_weights = options.verify_weights});
  result.library = model.library;
  if (model.weights_offset) {
    result.weights = {path, *model.weights_offset};
  }
  return result;
}

}  // namespace kiln::container_runtime

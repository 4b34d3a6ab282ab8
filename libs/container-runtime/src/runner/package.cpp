#include "kiln/container_runtime/package.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "kiln/base/error.hpp"
#include "package_checksums.hpp"
#include "package_layout.hpp"
#include "zip_reader.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

bool is_for_the_compiler(const std::string& file) {
  return file.ends_with(".cpp") || file.ends_with(".o") || file.ends_with(".a");
}

void write_new_file(const fs::path& path, Bytes bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = file >= 0;
  while (written && !bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    written = count > 0 || (count < 0 && errno == EINTR);
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  const int reason = errno;
  written = file >= 0 && close(file) == 0 && written;
  if (!written) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be written: " + std::strerror(reason));
  }
}

}  // namespace

void add_metadata(std::map<std::string, std::string>& metadata,
                  const std::string& text,
                  const std::string& file) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw Error(ErrorCode::kCorrupt, file + " is not a JSON object");
  }
  for (const auto& [key, value] : json.items()) {
    metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

struct Package::Archive {
  explicit Archive(const fs::path& path) : zip(path) {
    for (const ZipMember& member : zip.members()) {
      add(member);
    }
    std::sort(files.begin(), files.end());
  }

  // All files are in one folder, whatever its name is.
  void add(const ZipMember& member) {
    const std::size_t slash = member.name.find('/');
    const std::string folder = member.name.substr(0, slash == std::string::npos ? 0 : slash + 1);
    root = members.empty() ? folder : root;
    if (folder.empty() || folder != root) {
      throw Error(ErrorCode::kCorrupt,
                  zip.path().string() + " is not a package: " + member.name +
                      " is not in the folder " + (root.empty() ? "of an archive" : root));
    }
    const std::string file = member.name.substr(root.size());
    if (!file.empty() && !file.ends_with('/') && members.emplace(file, &member).second) {
      files.push_back(file);
    }
  }

  [[nodiscard]] const ZipMember& member(const std::string& file) const {
    const auto found = members.find(file);
    if (found == members.end()) {
      throw Error(ErrorCode::kCorrupt, zip.path().string() + " has no " + file);
    }
    return *found->second;
  }

  // Verifies the library, but for the weights behind it unless `all` is wanted, and returns where
  // they begin in it.
  [[nodiscard]] std::optional<std::uint64_t> verify_library(const std::string& file,
                                                            std::optional<SizedChecksum> code,
                                                            bool all) const {
    const Bytes library = zip.stored(member(file));
    const std::optional<std::uint64_t> weights = weights_begin(std::span(&library, 1));
    if (all || !code) {
      zip.verify(member(file));
    }
    if (code && (code->bytes != weights.value_or(library.size()) || !begins_with(library, *code))) {
      throw Error(ErrorCode::kCorrupt,
                  zip.path().string() + ": " + file + " is damaged: code checksum mismatch");
    }
    return weights;
  }

  ZipReader zip;
  std::string root = {};
  std::map<std::string, const ZipMember*> members = {};
  std::vector<std::string> files = {};
};

Package::Package(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be read");
  }
  archive_ = std::make_unique<Archive>(path);
}

Package::~Package() = default;
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;

const Package::Archive& Package::archive() const {
  if (!archive_) {
    throw Error(ErrorCode::kInvalidArgument, "the package was moved to another object");
  }
  return *archive_;
}

const std::vector<std::string>& Package::files() const {
  return archive().files;
}

std::vector<std::string> Package::model_names() const {
  const std::string folder = kModelsFolder;
  std::set<std::string> names;
  for (const std::string& file : archive().files) {
    const std::size_t slash = file.find('/', folder.size());
    if (file.starts_with(folder) && slash != std::string::npos) {
      names.insert(file.substr(folder.size(), slash - folder.size()));
    }
  }
  return {names.begin(), names.end()};
}

std::map<std::string, std::string> Package::metadata(const std::string& model_name) const {
  std::map<std::string, std::string> result;
  for (const std::string& file : archive().files) {
    if (!file.starts_with(model_folder(model_name)) || !file.ends_with(kMetadataSuffix)) {
      continue;
    }
    add_metadata(result, read(file), archive().zip.path().string() + ": " + file);
  }
  return result;
}

std::string Package::read(const std::string& file) const {
  return archive().zip.read(archive().member(file));
}

UnpackedModel Package::unpack(const std::string& model_name,
                              const fs::path& directory,
                              UnpackOptions options) const {
  const std::string folder = model_folder(model_name);
  UnpackedModel model;
  for (const std::string& file : archive().files) {
    if (!file.starts_with(folder) || is_for_the_compiler(file)) {
      continue;
    }
    // Flat, and so never outside `directory`.
    const fs::path target = directory / fs::path(file).filename();
    const ZipMember& member = archive().member(file);
    const bool is_library = file.ends_with(kLibrarySuffix);
    if (!is_library || !member.is_stored) {
      const std::string bytes = read(file);
      write_new_file(target, std::as_bytes(std::span(bytes)));
      model.library = is_library ? target : model.library;
      continue;
    }
    const auto code = find_checksum(metadata(model_name), kCodeChecksumKey);
    const auto weights = archive().verify_library(file, code, options.verify_weights);
    const Bytes library = archive().zip.stored(member);
    write_new_file(target, library.first(weights.value_or(library.size())));
    model.library = target;
    if (weights) {
      model.weights_offset = member.offset + *weights;
    }
  }
  if (model.library.empty()) {
    std::string names;
    for (const std::string& name : model_names()) {
      names += " " + name;
    }
    throw Error(ErrorCode::kCorrupt,
                archive().zip.path().string() + " has no library for the model '" + model_name +
                    "'; models in it:" + (names.empty() ? " none" : names));
  }
  return model;
}

Package open_package(const fs::path& path) {
  return Package(path);
}

}  // namespace kiln::container_runtime

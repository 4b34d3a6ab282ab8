#include "kiln/container_runtime/package.hpp"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/container_runtime/model.h"
#include "package_layout.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

bool is_for_the_compiler(const std::string& file) {
  return file.ends_with(".cpp") || file.ends_with(".o") || file.ends_with(".a");
}

// Closes a file descriptor at the end of a scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) {
      close(number);
    }
  }
};

void copy_bytes(int source, off_t offset, std::size_t bytes, int target, const fs::path& path) {
  while (bytes > 0) {
    const ssize_t copied = sendfile(target, source, &offset, std::min(bytes, std::size_t{1} << 30));
    if (copied < 0 && errno == EINTR) {
      continue;
    }
    if (copied <= 0) {
      throw Error(ErrorCode::kIo, path.string() + " cannot be written: " + std::strerror(errno));
    }
    bytes -= static_cast<std::size_t>(copied);
  }
}

}  // namespace

void add_metadata(std::map<std::string, std::string>& metadata,
                  const std::string& text,
                  const std::string& file) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw Error(ErrorCode::kCorrupt, file + " is no JSON object");
  }
  for (const auto& [key, value] : json.items()) {
    metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

struct Package::Archive {
  explicit Archive(const fs::path& file) : path(file), reader(file.string()) {
    files = reader.getAllRecords();
    std::sort(files.begin(), files.end());
  }

  // Only a stored record is in the file as it is: the method stands at byte 8 of its header.
  bool is_stored(const std::string& file) {
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(reader.getRecordHeaderOffset(file)) + 8);
    std::array<char, 2> method{};
    return stream.read(method.data(), method.size()) && method[0] == 0 && method[1] == 0;
  }

  // Where in the package the weights behind a stored library begin.
  std::optional<std::uint64_t> weights_offset(const std::string& file) {
    KilnWeightsTrailer trailer{};
    const std::uint64_t size = reader.getRecordSize(file);
    if (size < sizeof(trailer) || !is_stored(file)) {
      return std::nullopt;
    }
    const std::uint64_t end = reader.getRecordOffset(file) + size - sizeof(trailer);
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(end));
    stream.read(reinterpret_cast<char*>(&trailer), sizeof(trailer));
    if (!stream || std::memcmp(trailer.magic, KILN_WEIGHTS_MAGIC, sizeof(trailer.magic)) != 0 ||
        trailer.weights_bytes > size - sizeof(trailer)) {
      return std::nullopt;
    }
    return end - trailer.weights_bytes;
  }

  // Writes a record, or as much of it as stands before byte `end` of the package.
  void unpack(const std::string& file, const fs::path& target, std::optional<std::uint64_t> end) {
    if (!is_stored(file)) {
      const auto [bytes, size] = reader.getRecord(file);
      write_file_atomically(target, std::string_view(static_cast<const char*>(bytes.get()), size));
      return;
    }
    const std::uint64_t begin = reader.getRecordOffset(file);
    const Descriptor from{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    const Descriptor to{open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    if (from.number < 0 || to.number < 0) {
      throw Error(ErrorCode::kIo, target.string() + " cannot be written: " + std::strerror(errno));
    }
    copy_bytes(from.number,
               static_cast<off_t>(begin),
               end ? *end - begin : reader.getRecordSize(file),
               to.number,
               target);
  }

  fs::path path;
  caffe2::serialize::PyTorchStreamReader reader;
  std::vector<std::string> files;
};

Package::Package(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    throw Error(ErrorCode::kIo, path.string() + " cannot be read");
  }
  try {
    archive_ = std::make_unique<Archive>(path);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kCorrupt, path.string() + " is no package: " + error.what());
  }
}

Package::~Package() = default;
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;

const std::vector<std::string>& Package::files() const noexcept {
  return archive_->files;
}

std::vector<std::string> Package::model_names() const {
  const std::string folder = kModelsFolder;
  std::set<std::string> names;
  for (const std::string& file : archive_->files) {
    const std::size_t slash = file.find('/', folder.size());
    if (file.starts_with(folder) && slash != std::string::npos) {
      names.insert(file.substr(folder.size(), slash - folder.size()));
    }
  }
  return {names.begin(), names.end()};
}

std::map<std::string, std::string> Package::metadata(const std::string& model_name) const {
  std::map<std::string, std::string> result;
  for (const std::string& file : archive_->files) {
    if (!file.starts_with(model_folder(model_name)) || !file.ends_with(kMetadataSuffix)) {
      continue;
    }
    add_metadata(result, read(file), archive_->path.string() + ": " + file);
  }
  return result;
}

std::string Package::read(const std::string& file) const {
  try {
    const auto [bytes, size] = archive_->reader.getRecord(file);
    return {static_cast<const char*>(bytes.get()), size};
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                archive_->path.string() + " has no readable " + file + ": " + error.what());
  }
}

UnpackedModel Package::unpack(const std::string& model_name, const fs::path& directory) const {
  const std::string folder = model_folder(model_name);
  UnpackedModel model;
  for (const std::string& file : archive_->files) {
    if (!file.starts_with(folder) || is_for_the_compiler(file)) {
      continue;
    }
    // Flat, and so never outside `directory`.
    const fs::path target = directory / fs::path(file).filename();
    const bool is_library = file.ends_with(kLibrarySuffix);
    const auto weights = is_library ? archive_->weights_offset(file) : std::nullopt;
    archive_->unpack(file, target, weights);
    if (is_library) {
      model = {target, weights};
    }
  }
  if (model.library.empty()) {
    std::string names;
    for (const std::string& name : model_names()) {
      names += " " + name;
    }
    throw Error(ErrorCode::kCorrupt,
                archive_->path.string() + " has no library for the model '" + model_name +
                    "'; models in it:" + (names.empty() ? " none" : names));
  }
  return model;
}

Package open_package(const fs::path& path) {
  return Package(path);
}

}  // namespace kiln::container_runtime

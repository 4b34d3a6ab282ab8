#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/mapped_file.hpp"
#include "kiln/base/pending_file.hpp"
#include "kiln/container_runtime/package.hpp"
#include "package_checksums.hpp"
#include "package_layout.hpp"
#include "stored_zip.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;

// The one PyTorch writes; from it on the version lies in the .data folder.
constexpr std::string_view kArchiveVersion = "6\n";
// All files of an archive are in one folder; this name is that of libtorch's own writer.
const std::string kRoot = "archive/";

std::string metadata_json(const PackageContents& contents, const LibraryChecksums& checksums) {
  utsname system{};
  uname(&system);
  nlohmann::json metadata = contents.metadata;
  metadata[kDeviceKey] = contents.device;
  if (contents.instances != 0) {
    metadata[kInstancesKey] = std::to_string(contents.instances);
  }
  metadata[kCodeChecksumKey] = to_string(checksums.code);
  metadata[kLibraryChecksumKey] = to_string(checksums.library);
  metadata["AOTI_PLATFORM"] = "linux";
  metadata[kMachineKey] = system.machine;
  using Handler = nlohmann::json::error_handler_t;
  return metadata.dump(-1, ' ', false, Handler::replace);
}

std::string library_record(const std::string& model_name) {
  return kRoot + model_folder(model_name) + model_name + kLibrarySuffix;
}

// What is in a package beside the library.
void write_rest(StoredZip& zip,
                const PackageContents& contents,
                const LibraryChecksums& checksums) {
  const auto write = [&](const std::string& name, std::string_view bytes) {
    zip.add(kRoot + name, bytes);
  };
  const std::string stem = model_folder(contents.model_name) + contents.model_name;
  write("archive_format", "pt2");
  write("archive_version", "0");
  write("byteorder", std::endian::native == std::endian::little ? "little" : "big");
  write(stem + kMetadataSuffix, metadata_json(contents, checksums));
  // Even if empty: PyTorch 2.11 finds the other files by the name of this one.
  write(stem + kSourceSuffix, contents.source);
  if (!contents.extern_nodes.empty()) {
    write(stem + kExternNodesSuffix, contents.extern_nodes);
  }
  for (const auto& [name, bytes] : contents.extra_files) {
    write(kExtraFolder + name, bytes);
  }
  if (!contents.sample_inputs.empty()) {
    write(kSampleInputsFolder + contents.model_name + ".pt", contents.sample_inputs);
  }
  write(".data/version", kArchiveVersion);
  write(".data/serialization_id", zip.identification());
  zip.finish();
}

// Of this process and in it: two writers may be at work on one package.
std::string unique_suffix() {
  static std::atomic<unsigned> counter{0};
  return std::to_string(getpid()) + "." + std::to_string(counter++);
}

// A file beside `path` that takes its place once it is whole, or is removed.
class PendingPackage {
 public:
  explicit PendingPackage(const fs::path& path)
      : path_(path),
        folder_(path.has_parent_path() ? path.parent_path() : fs::path(".")),
        temporary_(folder_ / ("." + path.filename().string() + "." + unique_suffix())) {
    std::error_code ignored;
    fs::create_directories(folder_, ignored);
    zip_.emplace(temporary_.path());
  }

  [[nodiscard]] StoredZip& zip() { return *zip_; }

  void commit() { temporary_.rename_to(path_); }

 private:
  fs::path path_, folder_;
  PendingFile temporary_;
  std::optional<StoredZip> zip_;
};

}  // namespace

void write_package(const fs::path& path, const PackageContents& contents) {
  const MappedFile library(contents.library);
  std::vector<Bytes> parts{library.bytes()};
  parts.insert(parts.end(), contents.weights.begin(), contents.weights.end());
  PendingPackage pending(path);
  StoredZip& zip = pending.zip();
  zip.add(library_record(contents.model_name), parts);
  write_rest(zip, contents, {code_checksum(parts), zip.last_checksum()});
  pending.commit();
}

struct PackageWriter::State {
  PendingPackage pending;
  std::uint64_t room;
  std::vector<Bytes> weights;
  std::string model_name;
  std::stop_source stop = {};
  std::future<void> written = {};
};

PackageWriter::PackageWriter(const fs::path& path,
                             std::uint64_t room,
                             std::vector<Bytes> weights,
                             std::string model_name)
    : state_(new State{PendingPackage(path), room, std::move(weights), std::move(model_name)}) {
  StoredZip& zip = state_->pending.zip();
  zip.begin(library_record(state_->model_name), room);
  state_->written = std::async(
      std::launch::async, [this, &zip] { zip.append(state_->weights, state_->stop.get_token()); });
}

PackageWriter::~PackageWriter() {
  state_->stop.request_stop();
  if (state_->written.valid()) {
    state_->written.wait();
  }
}

void PackageWriter::finish(const PackageContents& contents) {
  const MappedFile library(contents.library);
  if (library.bytes().size() > state_->room || contents.model_name != state_->model_name) {
    throw Error(ErrorCode::kInvalidArgument,
                contents.library.string() +
                    " does not fit the space reserved in the package for the model '" +
                    state_->model_name + "'");
  }
  StoredZip& zip = state_->pending.zip();
  state_->written.get();
  zip.append(contents.weights);
  zip.complete(library.bytes());
  const std::vector<std::byte> padding(state_->room - library.bytes().size());
  std::vector<Bytes> parts{library.bytes(), padding};
  parts.insert(parts.end(), state_->weights.begin(), state_->weights.end());
  parts.insert(parts.end(), contents.weights.begin(), contents.weights.end());
  write_rest(zip, contents, {code_checksum(parts), zip.last_checksum()});
  state_->pending.commit();
}

}  // namespace kiln::container_runtime

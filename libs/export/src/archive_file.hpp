// The container of a `.pt2`: named records in a zip archive, and the file's memory map.

#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kiln/base/mapped_file.hpp"

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace kiln::exporter {

/// An open archive.
class ArchiveFile {
 public:
  /// Throws `kIo` if the file cannot be read and `kCorrupt` if it is not an archive of PyTorch's.
  explicit ArchiveFile(const std::filesystem::path& path);
  ~ArchiveFile();

  [[nodiscard]] bool has(const std::string& record) const;
  [[nodiscard]] std::vector<std::string> records() const;
  /// Throws `kCorrupt` naming the record if it is missing or damaged.
  [[nodiscard]] std::vector<char> bytes(const std::string& record) const;
  [[nodiscard]] std::string text(const std::string& record) const;
  /// The record as memory: mapped where it lies uncompressed at an address that is a multiple of
  /// `alignment`, else read.
  [[nodiscard]] c10::Storage storage(const std::string& record, std::size_t alignment) const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  [[nodiscard]] c10::Storage read_storage(const std::string& record) const;

  std::filesystem::path path_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  std::shared_ptr<const MappedFile> map_;
};

}  // namespace kiln::exporter

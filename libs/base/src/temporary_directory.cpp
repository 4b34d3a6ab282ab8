#include "kiln/base/temporary_directory.hpp"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"

namespace kiln {
namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  std::error_code failure;
  const fs::path parent = fs::temp_directory_path(failure);
  std::string name = (parent / (std::string(prefix) + "-XXXXXX")).string();
  if (failure || ::mkdtemp(name.data()) == nullptr) {
    const int code = failure ? failure.value() : errno;
    throw Error(ErrorCode::kIo,
                "cannot create a temporary directory " + name + ": " +
                    std::generic_category().message(code));
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!path_.empty()) {
    remove_tree(path_);
  }
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(other.release()) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  path_.swap(other.path_);
  return *this;
}

fs::path TemporaryDirectory::release() noexcept {
  fs::path path;
  path.swap(path_);
  return path;
}

}  // namespace kiln

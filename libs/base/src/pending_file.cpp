#include "kiln/base/pending_file.hpp"

#include <unistd.h>

#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

class PendingFiles {
 public:
  static PendingFiles& instance() {
    // Never destroyed: a thread may write a file while the program exits.
    static auto* const pending = new PendingFiles;
    return *pending;
  }

  void add(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    if (removed_) {
      throw Error(ErrorCode::kIo, "cannot write " + path.string() + " during shutdown");
    }
    paths_.insert(path);
  }
  void forget(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    if (const auto found = paths_.find(path); found != paths_.end()) {
      paths_.erase(found);
    }
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    removed_ = true;
    for (const fs::path& path : paths_) {
      ::unlink(path.c_str());
    }
  }

 private:
  std::mutex mutex_;
  std::multiset<fs::path> paths_;
  bool removed_ = false;
};

}  // namespace

PendingFile::PendingFile(fs::path path) : path_(std::move(path)) {
  PendingFiles::instance().add(path_);
}

PendingFile::~PendingFile() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
    PendingFiles::instance().forget(path_);
  }
}

void PendingFile::rename_to(const fs::path& place) {
  std::error_code failure;
  fs::rename(path_, place, failure);
  if (failure) {
    throw Error(ErrorCode::kIo, place.string() + " cannot be written: " + failure.message());
  }
  PendingFiles::instance().forget(path_);
  path_.clear();
}

void remove_pending_files() noexcept {
  PendingFiles::instance().remove();
}

}  // namespace kiln

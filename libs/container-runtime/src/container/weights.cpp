#include "container/weights.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "container/failure.hpp"

namespace kiln::container {
namespace {

// A part of a file.
struct Place {
  std::string path;
  std::uint64_t offset = 0;
};

std::mutex place_mutex;
Place place_by_host;  // guarded by `place_mutex`; without a path: behind the library

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
      fail(std::strerror(errno));
    }
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Failure("the model's weights cannot be read from " + path_ + ": " + reason);
  }

 private:
  const std::string path_;
  const int descriptor_;
  std::uint64_t bytes_ = 0;
};

std::string library_path() {
  Dl_info info{};
  if (dladdr(&kiln_model, &info) == 0 || info.dli_fname == nullptr) {
    throw Failure("the library's own file cannot be found");
  }
  return info.dli_fname;
}

std::uint64_t offset_behind_library(const File& file, const KilnModel& model) {
  KilnWeightsTrailer trailer{};
  const bool fits = file.bytes() >= sizeof(trailer) &&
                    file.bytes() - sizeof(trailer) >= model.weights_bytes &&
                    pread(file.descriptor(),
                          &trailer,
                          sizeof(trailer),
                          static_cast<off_t>(file.bytes() - sizeof(trailer))) == sizeof(trailer);
  if (!fits || std::memcmp(trailer.magic, KILN_WEIGHTS_MAGIC, sizeof(trailer.magic)) != 0 ||
      trailer.weights_bytes != model.weights_bytes) {
    file.fail("they do not stand behind the library; it was cut or stripped");
  }
  return file.bytes() - sizeof(trailer) - model.weights_bytes;
}

}  // namespace

Weights::Weights(const KilnModel& model) : data_(model.weights) {
  if (data_ != nullptr || model.weights_bytes == 0) {
    return;
  }
  Place place;
  {
    const std::lock_guard lock(place_mutex);
    place = place_by_host;
  }
  const bool behind_library = place.path.empty();
  const File file(behind_library ? library_path() : place.path);
  if (behind_library) {
    place.offset = offset_behind_library(file, model);
  }
  if (place.offset > file.bytes() || model.weights_bytes > file.bytes() - place.offset) {
    file.fail("the file ends before they do");
  }
  const std::uint64_t before = place.offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  mapped_bytes_ = before + model.weights_bytes;
  mapping_ = mmap(nullptr,
                  mapped_bytes_,
                  PROT_READ | PROT_WRITE,
                  MAP_PRIVATE,
                  file.descriptor(),
                  static_cast<off_t>(place.offset - before));
  if (mapping_ == MAP_FAILED) {
    file.fail(std::strerror(errno));
  }
  data_ = static_cast<unsigned char*>(mapping_) + before;
}

Weights::~Weights() {
  if (mapped_bytes_ != 0) {
    munmap(mapping_, mapped_bytes_);
  }
}

void take_weights_from(const char* path, std::uint64_t offset) {
  const std::lock_guard lock(place_mutex);
  place_by_host = {path, offset};
}

}  // namespace kiln::container

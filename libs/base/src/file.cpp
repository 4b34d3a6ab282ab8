#include "kiln/base/file.hpp"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>

#include "kiln/base/error.hpp"
#include "kiln/base/file_descriptor.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* verb, const fs::path& path, int code) {
  throw Error(ErrorCode::kIo,
              std::string("cannot ") + verb + " " + path.string() + ": " +
                  std::generic_category().message(code));
}

// Unique among threads, among processes, and (by chance) among hosts that share a file system.
fs::path temporary_beside(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  static const unsigned host = std::random_device{}();
  return path.parent_path() / (".kiln." + std::to_string(host) + "." + std::to_string(::getpid()) +
                               "." + std::to_string(counter++));
}

// Returns 0, or the errno of the first step that failed.
int write_new_file(const fs::path& path,
                   std::span<const std::byte> bytes,
                   Durability durability,
                   Writers writers) {
  const mode_t mode = writers == Writers::kOwnerOnly ? mode_t{0644} : mode_t{0666};
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.open()) {
    return errno;
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written < 0 ? 0 : written));
  }
  // Without this a crash may leave the new name with nothing in it.
  if (durability == Durability::kFlushed && ::fsync(file.number()) != 0) {
    return errno;
  }
  return file.close() == 0 ? 0 : errno;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.open() || ::fstat(file.number(), &status) != 0) {
    fail("read", path, errno);
  }

  // The size is a guess: pipes and /proc have none, and a file may grow.
  std::string content(static_cast<std::size_t>(status.st_size) + 1, '\0');
  std::size_t size = 0;
  while (true) {
    const ssize_t count = ::read(file.number(), content.data() + size, content.size() - size);
    if (count == 0) {
      break;
    }
    if (count < 0 && errno != EINTR) {
      fail("read", path, errno);
    }
    size += static_cast<std::size_t>(count < 0 ? 0 : count);
    if (size == content.size()) {
      content.resize(2 * size + 4096);
    }
  }
  content.resize(size);
  return content;
}

void create_directories(const fs::path& path, Writers writers) {
  std::error_code failure;
  if (path.empty() || fs::is_directory(path, failure)) {
    return;
  }
  create_directories(path.parent_path(), writers);
  const mode_t mode = writers == Writers::kOwnerOnly ? mode_t{0755} : mode_t{0777};
  if (::mkdir(path.c_str(), mode) != 0) {
    const int code = errno;
    // Another process may have created it meanwhile, which is as good.
    if (!fs::is_directory(path, failure)) {
      fail("create", path, code);
    }
  }
}

void write_file_atomically(const fs::path& path,
                           std::string_view bytes,
                           Durability durability,
                           Writers writers) {
  write_file_atomically(path, std::as_bytes(std::span(bytes)), durability, writers);
}

void write_file_atomically(const fs::path& path,
                           std::span<const std::byte> bytes,
                           Durability durability,
                           Writers writers) {
  create_directories(path.parent_path(), writers);
  const fs::path temporary = temporary_beside(path);
  int code = write_new_file(temporary, bytes, durability, writers);
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) {
    code = errno;
  }
  if (code != 0) {
    ::unlink(temporary.c_str());
    fail("write", path, code);
  }
}

void remove_tree(const fs::path& path) noexcept {
  constexpr int kOpenFolders = 16;
  const auto remove = [](const char* name, const struct stat*, int, struct FTW*) {
    ::remove(name);
    return 0;
  };
  ::nftw(path.c_str(), remove, kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

}  // namespace kiln

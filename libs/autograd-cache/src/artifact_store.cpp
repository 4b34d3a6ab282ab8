#include "kiln/autograd_cache/artifact_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "blob_file.hpp"
#include "content_digest.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/log.hpp"
#include "layout.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr const char* kComponent = "autograd-cache";

void create_private_directory(const fs::path& path) {
  std::error_code failure;
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), failure);
  }
  if (!failure && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    failure = std::error_code(errno, std::generic_category());
  }
  if (failure) {
    throw Error(ErrorCode::kIo, "cannot create " + path.string() + ": " + failure.message());
  }
}

void require_own(const fs::path& path, const struct stat& status) {
  if ((status.st_uid != ::geteuid() && status.st_uid != 0) || (status.st_mode & 022) != 0) {
    throw Error(ErrorCode::kIo,
                path.string() + " holds machine code and other users can write to it");
  }
}

void require_usable(const fs::path& root, const StoreOptions& options) {
  struct stat status{};
  if (::stat(root.c_str(), &status) != 0) {
    throw Error(ErrorCode::kIo,
                "cannot open " + root.string() + ": " + std::generic_category().message(errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::kIo, root.string() + " is not a directory");
  }
  if (options.allow_shared) {
    return;
  }
  require_own(root, status);
  // What lies in a directory that nobody else can enter is out of reach.
  if ((status.st_mode & 011) == 0) {
    return;
  }
  for (const Kind kind : kKinds) {
    const fs::path folder = root / folder_of(kind);
    struct stat found{};
    if (::stat(folder.c_str(), &found) == 0) {
      require_own(folder, found);
    }
  }
}

// A final separator would make the parent of the root the root itself.
fs::path without_final_separator(fs::path path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

// ".so" of "model.so". Anything that could not be part of a plain name is left out.
std::string plain_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  return is_plain_extension(extension) ? extension : std::string();
}

// Nothing in the store is a link, so mapping does not follow one; a source may be one.
std::optional<MappedBlob> map_source(const fs::path& source) {
  std::error_code failure;
  const fs::path real = fs::canonical(source, failure);
  return failure ? std::nullopt : MappedBlob::map(real);
}

}  // namespace

ArtifactStore::ArtifactStore(fs::path root, StoreOptions options)
    : root_(without_final_separator(std::move(root))),
      options_(options),
      writable_(!options.read_only) {
  if (!options_.read_only) {
    create_private_directory(root_);
  }
  require_usable(root_, options_);
}

std::optional<MappedBlob> ArtifactStore::find(const Digest& key) const {
  const fs::path path = path_of(root_, Kind::kBlob, key);
  std::optional<MappedBlob> blob = load(path, key);
  if (blob) {
    touch(path);
  }
  return blob;
}

bool ArtifactStore::put(const Digest& key,
                        std::span<const std::byte> blob,
                        Compression compression) {
  return writable_ && write(path_of(root_, Kind::kBlob, key),
                            encode_blob(key, blob, compression),
                            Durability::kEventual);
}

std::optional<fs::path> ArtifactStore::find_file(const Digest& key) const {
  for (const StoredFile& file : files_under(root_, Kind::kFile, key)) {
    if (intact(file.path, *file.content)) {
      return file.path;
    }
  }
  return std::nullopt;
}

std::optional<fs::path> ArtifactStore::find_file(const FileReference& reference) const {
  const fs::path path = path_of(root_, reference);
  return intact(path, reference.content) ? std::optional(path) : std::nullopt;
}

bool ArtifactStore::intact(const fs::path& path, const Digest& content) const {
  const std::optional<Digest> found = content_digest(path);
  if (!found) {
    return false;
  }
  if (*found != content) {
    drop(path);
    return false;
  }
  touch(path);
  return true;
}

bool ArtifactStore::put_file(const Digest& key, const fs::path& source) {
  const std::optional<MappedBlob> content = map_source(source);
  return content &&
         put_file(
             key, content->bytes(), {content_digest(content->bytes()), plain_extension(source)});
}

std::optional<FileReference> ArtifactStore::put_file(const fs::path& source) {
  const std::optional<MappedBlob> content = map_source(source);
  if (!content) {
    return std::nullopt;
  }
  const FileReference reference{content_digest(content->bytes()), plain_extension(source)};
  const bool stored = put_file(reference.content, content->bytes(), reference);
  return stored ? std::optional(reference) : std::nullopt;
}

bool ArtifactStore::put_file(const FileReference& reference, std::span<const std::byte> bytes) {
  return is_plain_extension(reference.extension) && content_digest(bytes) == reference.content &&
         put_file(reference.content, bytes, reference);
}

bool ArtifactStore::put_file(const Digest& key,
                             std::span<const std::byte> bytes,
                             const FileReference& reference) {
  if (!writable_) {
    return false;
  }
  const fs::path target =
      path_of(root_, Kind::kFile, key) / (reference.content.hex() + reference.extension);
  // A library that some process has loaded should keep its file: equal bytes are not rewritten.
  if (const std::optional<MappedBlob> stored = MappedBlob::map(target);
      stored && std::ranges::equal(stored->bytes(), bytes)) {
    touch(target);
    return true;
  }
  return write(target, bytes, options_.durability);
}

std::optional<MappedBlob> ArtifactStore::find_variant(
    const Digest& key, const std::function<Verdict(std::span<const std::byte>)>& judge) const {
  for (const StoredFile& file : files_under(root_, Kind::kVariant, key)) {
    std::optional<MappedBlob> variant = load(file.path, key);
    if (!variant) {
      continue;
    }
    switch (judge(variant->bytes())) {
      case Verdict::kTake: touch(file.path); return variant;
      case Verdict::kSkip: break;
      case Verdict::kDrop: remove(file.path); break;
    }
  }
  return std::nullopt;
}

bool ArtifactStore::put_variant(const Digest& key, std::span<const std::byte> variant) {
  return writable_ && write(path_of(root_, Kind::kVariant, key) / digest(variant).hex(),
                            encode_blob(key, variant, Compression::kWhereItPays),
                            options_.durability);
}

bool ArtifactStore::has_variant(const Digest& key, std::span<const std::byte> variant) const {
  std::error_code failure;
  return fs::exists(path_of(root_, Kind::kVariant, key) / digest(variant).hex(), failure);
}

void ArtifactStore::drop_variant(const Digest& key, std::span<const std::byte> variant) {
  remove(path_of(root_, Kind::kVariant, key) / digest(variant).hex());
}

std::optional<MappedBlob> ArtifactStore::load(const fs::path& path, const Digest& key) const {
  const std::optional<MappedBlob> file = MappedBlob::map(path);
  if (!file) {
    return std::nullopt;
  }
  std::optional<MappedBlob> blob;
  try {
    blob = decode_blob(key, *file);
  } catch (const std::bad_alloc&) {
    return std::nullopt;  // Too large to unpack here and now; that says nothing about the file.
  }
  if (!blob) {
    drop(path);
  }
  return blob;
}

bool ArtifactStore::write(const fs::path& path,
                          std::span<const std::byte> bytes,
                          Durability durability) {
  if (bytes.size() > bytes_after_eviction()) {
    return false;  // The eviction that it brings about would take it away again.
  }
  // Another process that clears the cache may take the directory away between two of our steps.
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      // Everything is checked when it is read, so a file torn by a power cut is only a miss.
      write_file_atomically(path, bytes, durability, writers());
      break;
    } catch (const std::exception& failure) {
      if (attempt < kAttempts) {
        continue;
      }
      ++failed_;
      if (writable_.exchange(false)) {
        KILN_LOG(kWarning, kComponent, "writing to the cache is disabled: " << failure.what());
      }
      return false;
    }
  }
  stay_within_limit(bytes.size());
  return true;
}

void ArtifactStore::touch(const fs::path& path) const {
  if (!options_.read_only) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // If it fails, eviction is a little unjust.
  }
}

void ArtifactStore::drop(const fs::path& path) const {
  ++corrupt_;
  KILN_LOG(kInfo, kComponent, path.string() << " is damaged");
  remove(path);
}

void ArtifactStore::remove(const fs::path& path) const {
  if (!options_.read_only) {
    ::unlink(path.c_str());
  }
}

StoreCounters ArtifactStore::counters() const {
  return {.corrupt = corrupt_, .evicted = evicted_, .failed = failed_};
}

}  // namespace kiln::autograd_cache

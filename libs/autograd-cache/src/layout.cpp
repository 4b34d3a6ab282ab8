#include "layout.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kShardCharacters = 2;
// How write_file_atomically() names its temporaries.
constexpr std::string_view kTemporaryPrefix = ".kiln.";

// Calls `visit` for each entry that is still there. A directory that vanishes meanwhile ends it.
template <class Visit>
void for_each_entry(const fs::path& directory, const Visit& visit) {
  std::error_code failure;
  fs::directory_iterator iterator(directory, failure);
  while (!failure && iterator != fs::directory_iterator()) {
    visit(*iterator);
    iterator.increment(failure);
  }
}

bool is_real_directory(const fs::directory_entry& entry) {
  std::error_code failure;
  return entry.symlink_status(failure).type() == fs::file_type::directory;
}

// Fills in size and time. False if it is not a plain file (a link may point outside the store).
bool inspect(const fs::directory_entry& entry, StoredFile& file) {
  std::error_code failure;
  if (entry.symlink_status(failure).type() != fs::file_type::regular) {
    return false;
  }
  file.path = entry.path();
  file.bytes = entry.file_size(failure);
  if (failure) {
    return false;
  }
  file.last_used = entry.last_write_time(failure);
  return !failure;
}

void append_files_in(const fs::path& directory,
                     Kind kind,
                     const Digest& key,
                     std::vector<StoredFile>& files) {
  for_each_entry(directory, [&](const fs::directory_entry& entry) {
    StoredFile file{
        .path = {}, .kind = kind, .key = key, .content = {}, .bytes = 0, .last_used = {}};
    file.content = Digest::parse(entry.path().stem().string());
    if (file.content && inspect(entry, file)) {
      files.push_back(std::move(file));
    }
  });
}

void append_shard(const fs::path& shard, Kind kind, std::vector<StoredFile>& files) {
  const std::string start = shard.filename().string();
  for_each_entry(shard, [&](const fs::directory_entry& entry) {
    const std::optional<Digest> key = Digest::parse(start + entry.path().filename().string());
    if (!key) {
      return;
    }
    if (kind != Kind::kBlob) {
      if (is_real_directory(entry)) {
        append_files_in(entry.path(), kind, *key, files);
      }
      return;
    }
    StoredFile file{
        .path = {}, .kind = kind, .key = *key, .content = {}, .bytes = 0, .last_used = {}};
    if (inspect(entry, file)) {
      files.push_back(std::move(file));
    }
  });
}

// Calls `visit(directory, kind)` for each shard.
template <class Visit>
void for_each_shard(const fs::path& root, const Visit& visit) {
  for (const Kind kind : kKinds) {
    for_each_entry(root / folder_of(kind), [&](const fs::directory_entry& shard) {
      if (shard.path().filename().string().size() == kShardCharacters && is_real_directory(shard)) {
        visit(shard.path(), kind);
      }
    });
  }
}

void remove_old_temporaries_in(const fs::path& directory, fs::file_time_type limit) {
  for_each_entry(directory, [&](const fs::directory_entry& entry) {
    std::error_code failure;
    if (entry.path().filename().string().starts_with(kTemporaryPrefix) &&
        entry.symlink_status(failure).type() == fs::file_type::regular &&
        entry.last_write_time(failure) < limit && !failure) {
      fs::remove(entry.path(), failure);
    }
  });
}

}  // namespace

const char* folder_of(Kind kind) {
  switch (kind) {
    case Kind::kBlob: return "blobs";
    case Kind::kFile: return "files";
    case Kind::kVariant: return "variants";
  }
  return "";
}

fs::path path_of(const fs::path& root, Kind kind, const Digest& key) {
  const std::string name = key.hex();
  return root / folder_of(kind) / name.substr(0, kShardCharacters) / name.substr(kShardCharacters);
}

fs::path path_of(const fs::path& root, const FileReference& reference) {
  return path_of(root, Kind::kFile, reference.content) /
         (reference.content.hex() + reference.extension);
}

std::vector<StoredFile> files_under(const fs::path& root, Kind kind, const Digest& key) {
  std::vector<StoredFile> files;
  append_files_in(path_of(root, kind, key), kind, key, files);
  std::sort(files.begin(), files.end(), [](const StoredFile& a, const StoredFile& b) {
    return a.last_used > b.last_used;
  });
  return files;
}

std::vector<StoredFile> all_files(const fs::path& root) {
  std::vector<StoredFile> files;
  for_each_shard(root, [&](const fs::path& shard, Kind kind) { append_shard(shard, kind, files); });
  return files;
}

void remove_abandoned_temporaries(const fs::path& root) {
  const auto limit = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for_each_shard(root, [&](const fs::path& shard, Kind) {
    remove_old_temporaries_in(shard, limit);
    for_each_entry(shard, [&](const fs::directory_entry& entry) {
      if (is_real_directory(entry)) {
        remove_old_temporaries_in(entry.path(), limit);
      }
    });
  });
}

void remove_empty_directories(const fs::path& root) {
  // fs::remove takes an empty directory and refuses any other, which is all we ask of it.
  std::error_code ignored;
  for_each_shard(root, [&](const fs::path& shard, Kind) {
    for_each_entry(shard, [&](const fs::directory_entry& entry) {
      if (is_real_directory(entry)) {
        fs::remove(entry.path(), ignored);
      }
    });
    fs::remove(shard, ignored);
  });
  for (const Kind kind : kKinds) {
    fs::remove(root / folder_of(kind), ignored);
  }
}

}  // namespace kiln::autograd_cache

// The directory layout of a store:
//
//   blobs/ab/cdef…            a blob under the key abcdef…
//   files/ab/cdef…/<content>  a plain file under that key; its name is its checksum
//   variants/ab/cdef…/<content>
//   size                      what it all takes (size_ledger.hpp)
//   evicting                  locked by the process that evicts
//   flights/<key>             locked by the process that compiles what belongs under that key
//   last-miss, recent-keys    what explains a miss (journal.hpp)
//   totals                    what happened through all caches here so far (totals.hpp)

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "kiln/autograd_cache/record.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

enum class Kind { kBlob, kFile, kVariant };

inline constexpr std::array kKinds = {Kind::kBlob, Kind::kFile, Kind::kVariant};

/// The folder below the root that holds all of a kind.
[[nodiscard]] const char* folder_of(Kind kind);

/// The blob's file, or the directory of the key's files or variants.
[[nodiscard]] std::filesystem::path path_of(const std::filesystem::path& root,
                                            Kind kind,
                                            const Digest& key);

/// The file that is stored under its own content.
[[nodiscard]] std::filesystem::path path_of(const std::filesystem::path& root,
                                            const FileReference& reference);

/// A file of the store, as it was when the directory was read.
struct StoredFile {
  std::filesystem::path path;
  Kind kind;
  Digest key;
  std::optional<Digest> content;  ///< Of files and variants: what the name says.
  std::uint64_t bytes = 0;
  std::filesystem::file_time_type last_used;
};

/// The files or variants in one key's directory, the most recently used first.
[[nodiscard]] std::vector<StoredFile> files_under(const std::filesystem::path& root,
                                                  Kind kind,
                                                  const Digest& key);

/// Every file of the store. What is not named like one of ours is not ours, and is passed over.
[[nodiscard]] std::vector<StoredFile> all_files(const std::filesystem::path& root);

/// Removes what writers that were killed left behind more than an hour ago.
void remove_abandoned_temporaries(const std::filesystem::path& root);

/// Removes the store's directories as far as they are empty.
void remove_empty_directories(const std::filesystem::path& root);

}  // namespace kiln::autograd_cache

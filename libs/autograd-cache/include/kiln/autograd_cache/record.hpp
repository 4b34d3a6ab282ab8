// What the cache writes to disk for one entry.

#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autograd_cache/key.hpp"
#include "kiln/base/digest.hpp"

namespace kiln::autograd_cache {

/// A file of an entry.
struct FileReference {
  Digest content;              ///< Of the file.
  std::string extension = {};  ///< ".so", or empty: the loader of a file may look at it.

  auto operator<=>(const FileReference&) const = default;  ///< Member by member.
};

/// Whether `extension` is empty or a dot and a few small letters and digits: nothing that could
/// lead out of a directory.
[[nodiscard]] bool is_plain_extension(std::string_view extension);

/// An entry whose files are replaced by the digests of their content.
struct Record {
  std::vector<KeyComponent> components;        ///< Of the key that it was stored under.
  std::string guards;                          ///< Opaque: only the caller can read them.
  std::map<std::string, std::string> blobs;    ///< By name.
  std::map<std::string, FileReference> files;  ///< By name.

  bool operator==(const Record&) const = default;  ///< Member by member.
};

/// The bytes of `record`: equal records have equal bytes, on every machine.
[[nodiscard]] std::string serialize(const Record& record);

/// The inverse of `serialize`. Throws `Error` with `kCorrupt` if `bytes` are not those of a record.
[[nodiscard]] Record parse_record(std::span<const std::byte> bytes);

}  // namespace kiln::autograd_cache

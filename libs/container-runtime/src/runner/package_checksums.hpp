// What a package says of its library, so that damaged code is never run.
//
// A zip file has a checksum of the whole library. Where weights stand behind it, to compare that
// would mean to read them all, so the metadata has one of the code alone.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "bytes.hpp"
#include "checksum.hpp"

namespace kiln::container_runtime {

/// Those that the metadata of a package has.
struct LibraryChecksums {
  SizedChecksum code;     ///< Without the weights behind it.
  SizedChecksum library;  ///< With them.
};

/// Where the weights begin in a library that is the concatenation of `parts`; nothing if there are
/// none behind it.
[[nodiscard]] std::optional<std::uint64_t> weights_begin(std::span<const Bytes> parts);

/// Of that library without the weights behind it.
[[nodiscard]] SizedChecksum code_checksum(std::span<const Bytes> parts);

/// As metadata has it: "BYTES:CHECKSUM", the checksum in hexadecimal.
[[nodiscard]] std::string to_string(const SizedChecksum& sum);

/// What `metadata` says under `key`; nothing if it does not. Throws `Error` with `kCorrupt` if that
/// is not a checksum.
[[nodiscard]] std::optional<SizedChecksum> find_checksum(
    const std::map<std::string, std::string>& metadata, const std::string& key);

/// Whether `bytes` begin with what has the checksum `sum`.
[[nodiscard]] bool begins_with(Bytes bytes, const SizedChecksum& sum);

}  // namespace kiln::container_runtime

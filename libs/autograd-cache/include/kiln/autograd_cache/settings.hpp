// Where the cache is and how it behaves unless a program says otherwise.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/base/file.hpp"

namespace kiln::autograd_cache {

/// What the cache may do.
enum class Mode {
  kOff,     ///< Every lookup misses, nothing is kept.
  kRead,    ///< Lookups only: the disk is not changed.
  kWrite,   ///< Lookups and saves; any fault falls back to compiling.
  kStrict,  ///< As `kWrite`, but a bypass or a fault throws.
};

/// $KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln, else a directory of this user
/// under the system's temporary directory.
[[nodiscard]] std::filesystem::path default_directory();

/// $KILN_CACHE_LIMIT ("500M", "10G", or bytes), else 10 GiB.
[[nodiscard]] std::uint64_t default_limit();

/// $KILN_CACHE (off, read, write, strict), else `kWrite`.
[[nodiscard]] Mode default_mode();

/// $KILN_CACHE_SYNC (on, off), else on: whether an entry is on the disk before it has its name.
[[nodiscard]] Durability default_durability();

/// $KILN_CACHE_ALLOW_SHARED (on, off), else off: whether a directory that other users can write to
/// is taken all the same.
[[nodiscard]] bool default_allow_shared();

/// $KILN_CACHE_REMOTE: the address of the remote tier, such as redis://host:6379; empty if unset.
[[nodiscard]] std::string default_remote();

/// $KILN_CACHE_SECRET, else the first line of the file $KILN_CACHE_SECRET_FILE, else nothing. If
/// that file cannot be read: a random one, the same for the life of the process, with which
/// everything remote is refused.
[[nodiscard]] std::string default_secret();

/// Reads "1048576", "500M", "10G" (K, M, G and T are powers of 1024; a following "B" or "iB" and
/// case do not matter), or nothing.
[[nodiscard]] std::optional<std::uint64_t> parse_byte_count(std::string_view text);

}  // namespace kiln::autograd_cache

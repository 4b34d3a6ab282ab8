// Whole files in and out; a written file appears complete or not at all.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// Returns everything in `path`. Throws `Error` with `kIo` if it cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// What a crash of the machine may do to a file that was just written.
enum class Durability {
  kFlushed,   ///< Nothing: the bytes are on the disk before the file has its name.
  kEventual,  ///< Leave it torn. Far quicker; for files that are checked when they are read.
};

/// Who may write to a file or a directory that is created.
enum class Writers {
  kByUmask,    ///< Whomever the process's umask lets.
  kOwnerOnly,  ///< Its owner alone, whatever the umask.
};

/// Creates `path` and its missing parents. Throws `Error` with `kIo`.
void create_directories(const std::filesystem::path& path, Writers writers);

/// Writes `bytes` to a temporary next to `path` and renames it to `path`.
///
/// Creates missing parent directories. Throws `Error` with `kIo`; `path` is then as it was.
void write_file_atomically(const std::filesystem::path& path,
                           std::string_view bytes,
                           Durability durability = Durability::kFlushed,
                           Writers writers = Writers::kByUmask);
/// The same for bytes that are not characters.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::byte> bytes,
                           Durability durability = Durability::kFlushed,
                           Writers writers = Writers::kByUmask);

/// Removes `path` and all it holds, as far as it can. Links are removed, not followed.
///
/// Not `std::filesystem::remove_all`: some libtorch builds export that function from a libstdc++ of
/// their own, and a program that links them crashes in it.
void remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace kiln

// The files that a Kiln needs when it runs: archives that it links into models, libraries that it
// opens.

#pragma once

#include <filesystem>
#include <string>

namespace kiln {

/// Finds `name` in $KILN_RUNTIME_DIR; beside the running program or the shared library that Kiln is
/// linked into, or in their ../lib; in the directories of `add_runtime_directory`. A program of
/// Kiln's own build tree finds it in `built` too (none if empty). Throws `Error` with `kIo` that
/// tells the places.
[[nodiscard]] std::filesystem::path find_runtime_file(const std::string& name,
                                                      const std::filesystem::path& built = {});

/// Lets `find_runtime_file` look in `directory` too, from now on. Returns true.
bool add_runtime_directory(const std::filesystem::path& directory);

#ifdef KILN_RUNTIME_DIRECTORY
/// That of the installed package that a program is built with, which only CMake knows: Kiln's
/// libraries are static, so that nothing else leads from the program to the prefix.
inline const bool kHasRuntimeDirectory = add_runtime_directory(KILN_RUNTIME_DIRECTORY);
#endif

}  // namespace kiln

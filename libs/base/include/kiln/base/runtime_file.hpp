// Finds files that Kiln needs at run time: archives that it links into models, and libraries that
// it opens.

#pragma once

#include <filesystem>
#include <string>

namespace kiln {

/// Finds `name`, in this order: in $KILN_RUNTIME_DIR; beside the running program or the shared
/// library that Kiln is linked into, or in their ../lib; in the directories of
/// `add_runtime_directory`. Programs of Kiln's own build tree also look in `built`, unless it is
/// empty. Throws `Error` with `kIo` that lists the directories.
[[nodiscard]] std::filesystem::path find_runtime_file(const std::string& name,
                                                      const std::filesystem::path& built = {});

/// Lets `find_runtime_file` look in `directory` too, from now on. Returns true.
bool add_runtime_directory(const std::filesystem::path& directory);

#ifdef KILN_RUNTIME_DIRECTORY
/// Adds the directory of the installed package that a program is built with. Only CMake knows it:
/// Kiln's libraries are static, so nothing else leads from the program to the prefix.
inline const bool kHasRuntimeDirectory = add_runtime_directory(KILN_RUNTIME_DIRECTORY);
#endif

}  // namespace kiln

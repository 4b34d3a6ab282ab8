// The files that a Kiln needs when it runs: archives that it links into models, libraries that it
// opens.

#pragma once

#include <filesystem>
#include <string>

namespace kiln {

/// Finds `name` in $KILN_RUNTIME_DIR, beside the running program, in its ../lib, or in `otherwise`
/// (none if empty). Throws `Error` with `kIo` that tells the places.
[[nodiscard]] std::filesystem::path find_runtime_file(const std::string& name,
                                                      const std::filesystem::path& otherwise = {});

}  // namespace kiln

// A look at a library file before the dynamic loader maps it.

#pragma once

#include <filesystem>

namespace kiln::container_runtime {

/// Throws unless `path` is a whole shared library for this machine: `kIo` if it cannot be read,
/// `kCorrupt` if it is not an ELF file or is truncated, `kIncompatible` if it is for another
/// architecture.
///
/// The loader maps a truncated file without complaint and the program dies later, on a page that is
/// not there.
void require_loadable(const std::filesystem::path& path);

}  // namespace kiln::container_runtime

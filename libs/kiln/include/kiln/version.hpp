// Which version of Kiln this is, for the preprocessor and for messages.
//
// The version is stated in cmake/Kiln.cmake; the configure step compares this file with it.

#pragma once

#include <string_view>

/// The number that changes when the C++ interface does (before 1.0, the minor one).
#define KILN_VERSION_MAJOR 0
/// The number that changes when something is added.
#define KILN_VERSION_MINOR 1
/// The number that changes when something is only mended.
#define KILN_VERSION_PATCH 0
/// One number to compare versions by: `#if KILN_VERSION >= 200` is 0.2.0 or newer.
#define KILN_VERSION (KILN_VERSION_MAJOR * 10000 + KILN_VERSION_MINOR * 100 + KILN_VERSION_PATCH)

namespace kiln {

/// The version of the library that the program is linked with: "0.1.0".
[[nodiscard]] std::string_view version();

}  // namespace kiln

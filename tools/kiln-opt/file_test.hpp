// A test as a file: a program, the passes to run, and the program or error that must come out.
//
//     # passes: functionalize, dead-code
//     graph before { … }
//     # becomes:
//     graph before { … }
//
// or, in the place of the last part, "# error: some words of the message".

#pragma once

#include <filesystem>
#include <string>

namespace kiln::opt {

/// What is wrong with the test `path`; empty if it passes. With `update` the expected part is
/// written anew.
[[nodiscard]] std::string check_file(const std::filesystem::path& path, bool update);

}  // namespace kiln::opt

// A test as a file: a program, the passes to run, and the program, text or error that must come
// out.
//
//     # passes: functionalize, dead-code
//     graph before { … }
//     # becomes:
//     graph before { … }
//
// or, in the place of the last part, "# error: some words of the message". Stages of code
// generation (prepare, lower, schedule) want a line "# isa: neon", or "# isa: sm_90" for a graph on
// a GPU, so that every machine plans alike; what they print must come out to the letter. A line
// "# -----" divides a file into several tests.

#pragma once

#include <filesystem>
#include <string>

namespace kiln::opt {

/// What is wrong with the tests of `path`; empty if they pass. With `update` the expected parts are
/// written anew.
[[nodiscard]] std::string check_file(const std::filesystem::path& path, bool update);

}  // namespace kiln::opt

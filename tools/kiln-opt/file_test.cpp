#include "file_test.hpp"

#include <optional>
#include <sstream>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "passes.hpp"

namespace kiln::opt {
namespace {

constexpr std::string_view kPasses = "# passes:";
constexpr std::string_view kBecomes = "# becomes:";
constexpr std::string_view kError = "# error:";

struct FileTest {
  std::string passes;
  std::string program;   // Everything before the expected part, comments included.
  std::string expected;  // A program, or words of an error.
  bool expects_error = false;
};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \n");
  return first == std::string_view::npos
             ? std::string()
             : std::string(text.substr(first, text.find_last_not_of(" \n") - first + 1));
}

std::optional<FileTest> split(const std::string& text) {
  FileTest test;
  std::istringstream lines(text);
  bool has_expected = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kPasses)) {
      test.passes = trimmed(std::string_view(line).substr(kPasses.size()));
    }
    if (!has_expected && (line.starts_with(kBecomes) || line.starts_with(kError))) {
      has_expected = true;
      test.expects_error = line.starts_with(kError);
      test.expected = test.expects_error ? line.substr(kError.size()) : std::string();
    } else {
      (has_expected ? test.expected : test.program) += line + '\n';
    }
  }
  test.expected = trimmed(test.expected);
  return test.passes.empty() ? std::nullopt : std::optional(test);
}

}  // namespace

std::string check_file(const std::filesystem::path& path, bool update) {
  const std::optional<FileTest> test = split(read_file(path));
  if (!test) {
    return "there is no line '# passes: …'";
  }
  std::string result;
  std::string error;
  try {
    ir::Graph graph = ir::parse(test->program);
    ir::verify(graph);
    result = ir::print(run_passes(std::move(graph), test->passes));
  } catch (const Error& problem) {
    error = problem.what();
  }
  if (update) {
    const std::string outcome = error.empty() ? std::string(kBecomes) + "\n" + result
                                              : std::string(kError) + " " + error + "\n";
    write_file_atomically(path, test->program + outcome);
    return {};
  }
  if (test->expects_error) {
    return error.find(test->expected) != std::string::npos && !test->expected.empty()
               ? std::string()
               : "expected the error: " + test->expected +
                     "\ngot: " + (error.empty() ? result : error);
  }
  if (!error.empty()) {
    return error;
  }
  try {
    const std::string expected = ir::print(ir::parse(test->expected));
    return expected == result ? std::string() : "expected:\n" + expected + "got:\n" + result;
  } catch (const Error& problem) {
    return std::string("the expected program cannot be read: ") + problem.what();
  }
}

}  // namespace kiln::opt

#include "file_test.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "passes.hpp"

namespace kiln::opt {
namespace {

constexpr std::string_view kPasses = "# passes:";
constexpr std::string_view kIsa = "# isa:";
constexpr std::string_view kDivider = "# -----\n";
constexpr std::string_view kBecomes = "# becomes:";
constexpr std::string_view kError = "# error:";

struct FileTest {
  std::string passes;
  std::string isa;
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
    } else if (line.starts_with(kIsa)) {
      test.isa = trimmed(std::string_view(line).substr(kIsa.size()));
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

// What a test gives: a graph as text, or what a stage printed.
struct Outcome {
  std::string result;
  bool is_graph = true;
  std::string error;
};

Outcome outcome_of(const FileTest& test) {
  try {
    ir::Graph graph = ir::parse(test.program);
    ir::verify(graph);
    const PassResult passed = run_passes(std::move(graph), test.passes, test.isa);
    const bool is_graph = passed.text.empty();
    return {is_graph ? ir::print(passed.graph) : passed.text, is_graph, ""};
  } catch (const Error& problem) {
    return {"", true, problem.what()};
  }
}

std::string check(const FileTest& test, const Outcome& outcome) {
  const auto& [result, is_graph, error] = outcome;
  if (test.expects_error) {
    return error.find(test.expected) != std::string::npos && !test.expected.empty()
               ? std::string()
               : "expected the error: " + test.expected +
                     "\ngot: " + (error.empty() ? result : error);
  }
  if (!error.empty()) {
    return error;
  }
  try {
    const std::string expected =
        is_graph ? ir::print(ir::parse(test.expected)) : test.expected + "\n";
    return expected == result ? std::string() : "expected:\n" + expected + "got:\n" + result;
  } catch (const Error& problem) {
    return std::string("the expected program cannot be read: ") + problem.what();
  }
}

}  // namespace

std::string check_file(const std::filesystem::path& path, bool update) {
  const std::string text = read_file(path);
  if (text.empty()) {
    return "there is no test in it";
  }
  std::string problems;
  std::string updated;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(kDivider, begin), text.size());
    const std::optional<FileTest> test = split(text.substr(begin, end - begin));
    if (!test) {
      return "there is no line '# passes: …'";
    }
    const Outcome outcome = outcome_of(*test);
    updated += (begin == 0 ? "" : kDivider);
    updated +=
        test->program + (outcome.error.empty() ? std::string(kBecomes) + "\n" + outcome.result
                                               : std::string(kError) + " " + outcome.error + "\n");
    problems += check(*test, outcome);
    begin = std::min(end + kDivider.size(), text.size());
  }
  if (update) {
    write_file_atomically(path, updated);
    return {};
  }
  return problems;
}

}  // namespace kiln::opt

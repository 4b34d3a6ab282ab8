// kiln-opt: reads a graph, runs passes, writes it; or checks file tests.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "file_test.hpp"
#include "kiln/base/file.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/dot.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "passes.hpp"

namespace kiln::opt {
namespace {

/// Files as they are, folders as the .kir files under them, sorted.
std::vector<std::filesystem::path> expand(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".kir") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

int check(const std::vector<std::string>& paths, bool update) {
  const std::vector<std::filesystem::path> files = expand(paths);
  int failures = 0;
  for (const std::filesystem::path& file : files) {
    const std::string problem = check_file(file, update);
    if (!problem.empty()) {
      ++failures;
      std::cout << file.string() << ": FAILED\n" << problem << "\n";
    }
  }
  std::cout << files.size() << " file tests, " << failures << " failed\n";
  // No file at all is a mistake in the command, not a success.
  return failures == 0 && !files.empty() ? 0 : 1;
}

std::string read_program(const std::string& path) {
  if (path == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  return read_file(path);
}

std::string emitted(const ir::Graph& graph, const std::string& form) {
  if (form == "json") {
    return ir::to_json(graph);
  }
  if (form == "dot") {
    return ir::to_dot(graph);
  }
  return form == "digest" ? ir::digest_of(graph).hex() + "\n" : ir::print(graph);
}

int run(int argc, char** argv) {
  CLI::App app("Reads a graph (.kir or JSON), runs passes on it and writes it.");
  std::vector<std::string> paths = {"-"};
  std::string list;
  std::string form = "text";
  std::string isa = "native";
  bool checks = false;
  bool update = false;
  app.add_option("file", paths, "What to read; - is standard input");
  app.add_option("-p,--passes", list, "Passes to run, separated by commas");
  app.add_option(
         "--isa",
         isa,
         "The instruction set, or architecture of a GPU, that prepare, lower and schedule plan for")
      ->capture_default_str();
  app.add_option("-e,--emit", form, "What to write")
      ->check(CLI::IsMember({"text", "json", "dot", "digest"}));
  app.add_flag(
      "--check", checks, "The files (or all .kir files under folders) are file tests: run them");
  app.add_flag("--update", update, "With --check: write the expected parts anew");
  std::string footer = "Passes:\n";
  for (const Pass& pass : passes()) {
    footer += "  " + pass.name + ": " + pass.summary + "\n";
  }
  for (const Stage& stage : stages()) {
    footer += "  " + stage.name + ": " + stage.summary + "\n";
  }
  app.footer(footer);
  CLI11_PARSE(app, argc, argv);

  if (checks) {
    return check(paths, update);
  }
  for (const std::string& path : paths) {
    const std::string text = read_program(path);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string::npos && text[first] == '{';
    ir::Graph graph = json ? ir::from_json(text) : ir::parse(text);
    ir::verify(graph);
    const PassResult result = run_passes(std::move(graph), list, isa);
    std::cout << (result.text.empty() ? emitted(result.graph, form) : result.text);
  }
  return 0;
}

}  // namespace
}  // namespace kiln::opt

int main(int argc, char** argv) {
  try {
    return kiln::opt::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "kiln-opt: " << error.what() << "\n";
    return 1;
  }
}

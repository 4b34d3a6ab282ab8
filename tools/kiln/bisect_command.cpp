// kiln bisect: the first kernel of a dump that is wrong.

#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bisect.hpp"
#include "commands.hpp"
#include "json_text.hpp"

namespace kiln::tool {
namespace {

struct BisectArguments {
  std::string dump;
  std::vector<std::string> inputs;
  double tolerance = -1;
};

nlohmann::json to_json(const std::vector<Difference>& differences) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Difference& difference : differences) {
    rows.push_back({{"value", difference.value},
                    {"form", difference.form},
                    {"largest", difference.largest},
                    {"count", difference.count},
                    {"first_element", difference.first}});
  }
  return rows;
}

void print(const std::vector<Difference>& differences) {
  for (const Difference& difference : differences) {
    std::cout << "  %" << difference.value << ": ";
    if (!difference.form.empty()) {
      std::cout << difference.form << "\n";
      continue;
    }
    std::cout << difference.count << " elements differ, by up to " << difference.largest
              << ", the first is number " << difference.first << "\n";
  }
}

void print(const BisectResult& result) {
  if (result.first) {
    std::cout << "the first wrong kernel is " << result.first->kernel << ", step "
              << result.first->step << (result.first->folds ? " of the folding program: " : ": ")
              << result.first->comment << "\n";
    print(result.first->differences);
    std::cout << "  its source is in " << result.first->file << "\n";
  } else {
    std::cout << "all " << result.kernels_checked << " kernel calls match the interpreter\n";
  }
  if (result.outputs.empty()) {
    std::cout << "the recompiled program matches the interpreter\n";
    return;
  }
  std::cout << "the outputs of the recompiled program differ from the interpreter's";
  std::cout << (result.first ? "\n" : ": look at the calls of libtorch and at shared memory\n");
  print(result.outputs);
}

// `CLI::NonNegativeNumber` lets NaN pass.
std::string problem_of_tolerance(const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = -1;
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && stop == end && value >= 0
             ? ""
             : "'" + text + "' is not a tolerance: give a number that is not negative";
}

int bisect_dump(const BisectArguments& arguments, bool json) {
  BisectOptions options{.inputs = arguments.inputs};
  if (arguments.tolerance >= 0) {
    options.tolerance = arguments.tolerance;
  }
  const BisectResult result = bisect(arguments.dump, options);
  if (json) {
    nlohmann::json object{{"kernels_checked", result.kernels_checked},
                          {"first_wrong", nullptr},
                          {"outputs_checked", result.outputs_checked},
                          {"outputs", to_json(result.outputs)}};
    if (result.first) {
      object["first_wrong"] = {{"folds_constants", result.first->folds},
                               {"step", result.first->step},
                               {"kernel", result.first->kernel},
                               {"operators", result.first->comment},
                               {"file", result.first->file},
                               {"differences", to_json(result.first->differences)}};
    }
    std::cout << json_text(object) << "\n";
  } else {
    print(result);
  }
  return result.first || !result.outputs.empty() ? kFoundDifference : 0;
}

}  // namespace

void add_bisect(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<BisectArguments>();
  CLI::App* command = app.add_subcommand(
      "bisect", "Find the first kernel of a dump (KILN_DUMP) that differs from the interpreter");
  command->add_option("dump", arguments->dump, "One graph's folder in the KILN_DUMP directory")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--inputs", arguments->inputs, ".npy or .pt files instead of the dump's own")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--tolerance",
                   arguments->tolerance,
                   "What may differ, relative; 1e-4 for f32 by default, 0 for integers")
      ->check(problem_of_tolerance);
  command->footer(R"(Examples:
  KILN_DUMP=dumps kiln compile model.pt2 -o out.pt2
  kiln bisect dumps/*                                exits with 3 if it finds something)");
  command->add_flag("--json", session.json, "Print a JSON object");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return bisect_dump(*arguments, session.json); };
  });
}

}  // namespace kiln::tool

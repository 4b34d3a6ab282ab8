// kiln inspect: what is in a file.

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "format.hpp"
#include "json_text.hpp"
#include "kiln/base/error.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/model.hpp"
#include "partition.hpp"
#include "show_program.hpp"
#include "sizes.hpp"

namespace kiln::tool {
namespace {

struct InspectArguments {
  std::string file, svg, html, stage, isa = "native";
  std::vector<std::string> arch;
  bool partition = false, unfused = false;
  double budget = 1.0;
};

bool is_package(const std::string& file) {
  return !file.ends_with(".pt2") || !container_runtime::Package(file).model_names().empty();
}

int show_model(const std::string& file, bool json) {
  Model model = load(file);
  double bytes = 0;
  nlohmann::json constants = nlohmann::json::array();
  for (const container_runtime::Constant& constant : model.constants()) {
    bytes += static_cast<double>(constant.bytes);
    constants.push_back(
        {{"name", constant.name}, {"fqn", constant.fqn}, {"bytes", constant.bytes}});
  }
  if (json) {
    std::cout << json_text(nlohmann::json{{"inputs", model.input_names()},
                                          {"outputs", model.output_names()},
                                          {"constants", constants},
                                          {"metadata", model.metadata()},
                                          {"in_spec", model.call_spec().inputs},
                                          {"out_spec", model.call_spec().outputs}})
              << "\n";
    return 0;
  }
  std::cout << "compiled model\n";
  for (const auto& [key, value] : model.metadata()) {
    if (key != kSizesKey) {
      std::cout << "  " << key << " = " << value << "\n";
    }
  }
  std::cout << "inputs   ";
  for (const std::string& name : model.input_names()) {
    std::cout << " " << name;
  }
  std::cout << "\noutputs  ";
  for (const std::string& name : model.output_names()) {
    std::cout << " " << name;
  }
  std::cout << "\n";
  if (const auto sizes = model.metadata().find(kSizesKey); sizes != model.metadata().end()) {
    std::cout << "sizes that vary\n";
    for (const std::string& line : describe_sizes(sizes->second)) {
      std::cout << "  " << line << "\n";
    }
  }
  std::cout << "constants " << model.constants().size() << ", " << describe_bytes(bytes) << "\n";
  for (const container_runtime::Constant& constant : model.constants()) {
    std::cout << "  " << constant.fqn << "  " << describe_bytes(static_cast<double>(constant.bytes))
              << "\n";
  }
  return 0;
}

int inspect_file(const InspectArguments& arguments, bool json) {
  if (arguments.partition) {
    return show_partition({arguments.file, arguments.svg, arguments.budget, json});
  }
  const ProgramArguments pictures{arguments.file,
                                  arguments.svg,
                                  arguments.html,
                                  arguments.unfused,
                                  arguments.stage,
                                  arguments.isa,
                                  arguments.arch};
  if (!arguments.stage.empty()) {
    if (!arguments.file.ends_with(".pt2") || is_package(arguments.file)) {
      throw Error(ErrorCode::kUnsupported,
                  "only an archive has stages; a compiled package keeps no graph");
    }
    return show_stage(pictures);
  }
  if (std::filesystem::is_directory(arguments.file)) {
    return show_dump(pictures, json);
  }
  if (arguments.file.ends_with(".kir")) {
    throw Error(ErrorCode::kInvalidArgument,
                "a graph as text can be read as it is; --partition splits one that has gradients");
  }
  if (!is_package(arguments.file)) {
    return show_program(pictures, json);
  }
  if (!arguments.svg.empty() || !arguments.html.empty()) {
    throw Error(ErrorCode::kUnsupported,
                "a compiled package keeps no graph to draw; inspect the archive it was made from");
  }
  return show_model(arguments.file, json);
}

}  // namespace

void add_inspect(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show what is in an archive, a package, a library or a dump");
  command
      ->add_option(
          "file", arguments->file, "Archive or package (.pt2), library (.so), or a dump's folder")
      ->required()
      ->check(CLI::ExistingPath);
  CLI::Option* svg = command->add_option(
      "--svg",
      arguments->svg,
      "Draw what an archive or a dump compiles to: fused kernels as boxes, bytes on "
      "the edges (needs graphviz)");
  CLI::Option* html =
      command->add_option("--html",
                          arguments->html,
                          "Compile an archive (or take a dump) and write one page with its steps, "
                          "kernels and their source, memory plan and times");
  CLI::Option* unfused = command->add_flag(
      "--unfused", arguments->unfused, "With --svg: the operators as exported, not the kernels");
  CLI::Option* stage =
      command
          ->add_option("--stage",
                       arguments->stage,
                       "Print what an archive is at a stage of a compile: the graph that is "
                       "scheduled, the loops of each node, the schedule, or the source")
          ->check(CLI::IsMember({"graph", "loops", "schedule", "source"}));
  CLI::Option* isa =
      command
          ->add_option(
              "--isa", arguments->isa, "With --stage: the instruction set that is planned for")
          ->capture_default_str()
          ->needs(stage);
  command
      ->add_option("--arch",
                   arguments->arch,
                   "With --stage: plan for GPUs of these architectures instead (sm_90)")
      ->delimiter(',')
      ->needs(stage)
      ->excludes(isa);
  CLI::Option* partition = command->add_flag(
      "--partition",
      arguments->partition,
      "Show what a training step of an archive, or of a joint graph (.kir), saves for "
      "its backward and why; --svg draws it");
  command->add_option("--budget", arguments->budget, "With --partition: the memory budget, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(partition);
  html->excludes(partition);
  unfused->needs(svg)->excludes(partition);
  stage->excludes(svg)->excludes(html)->excludes(partition);
  command->footer(R"(Examples:
  kiln inspect compiled.pt2                          inputs, outputs, constants
  kiln inspect model.pt2 --svg steps.svg             fused kernels as boxes
  kiln inspect model.pt2 --html model.html           everything on one page
  kiln inspect model.pt2 --stage schedule            kernels and their loops
  kiln inspect model.pt2 --partition --svg step.svg  what training would save)");
  command->add_flag("--json", session.json, "Print a JSON object")->excludes(stage);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return inspect_file(*arguments, session.json); };
  });
}

}  // namespace kiln::tool

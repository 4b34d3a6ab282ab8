// kiln compile: an archive of torch.export.save in, a package or a library out.

#include <ATen/Context.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "commands.hpp"
#include "console.hpp"
#include "format.hpp"
#include "json_text.hpp"
#include "kiln/kiln.hpp"

namespace kiln::tool {
namespace {

struct CompileArguments {
  std::string input, output, device;
  std::vector<std::string> options;
  std::string keep_source;
  std::size_t instances = 0;
  bool no_cache = false;
};

bool is_true(const std::string& name, const std::string& value) {
  if (value == "true" || value == "1") {
    return true;
  }
  if (value == "false" || value == "0") {
    return false;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "the option '" + name + "' must be true or false, not '" + value + "'");
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) {
    parts.push_back(std::move(part));
  }
  return parts;
}

// name=value pairs that the command line does not have switches for.
void apply_option(const std::string& pair, CompileOptions& options) {
  const std::size_t equals = pair.find('=');
  const std::string name = pair.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : pair.substr(equals + 1);
  if (name == "isa") {
    options.isa = value;
  } else if (name == "arch") {
    options.arch = split_at_commas(value);
  } else if (name == "check_indices") {
    if (value != "sync" && value != "later") {
      throw Error(ErrorCode::kInvalidArgument,
                  "the option 'check_indices' must be sync or later, not '" + value + "'");
    }
    options.check_indices_now = value == "sync";
  } else if (name == "check_inputs") {
    options.check_inputs = is_true(name, value);
  } else if (name == "deterministic") {
    at::globalContext().setDeterministicAlgorithms(is_true(name, value), /*warn_only=*/false);
  } else if (name == "profile") {
    options.profile = is_true(name, value);
  } else if (name == "winograd") {
    options.winograd = is_true(name, value);
  } else if (name == "identity") {
    options.identity = value;
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no option '" + name +
                    "'; known are isa, arch, check_inputs, check_indices, deterministic, profile, "
                    "winograd and identity");
  }
}

int compile_archive(const CompileArguments& arguments, bool json) {
  CompileOptions options;
  options.device = arguments.device;
  options.use_cache = !arguments.no_cache;
  options.instances = arguments.instances;
  options.keep_source = arguments.keep_source;
  options.progress = progress_reporter();
  for (const std::string& option : arguments.options) {
    apply_option(option, options);
  }

  const auto start = std::chrono::steady_clock::now();
  GraphReport report;
  aot_compile(std::filesystem::path(arguments.input), arguments.output, options, &report);
  const std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - start;
  finish_progress();

  const auto bytes = std::filesystem::file_size(arguments.output);
  if (json) {
    std::cout << json_text(nlohmann::json{{"output", arguments.output},
                                          {"bytes", bytes},
                                          {"nodes", report.nodes},
                                          {"kernels", report.kernels},
                                          {"extern_calls", report.extern_calls},
                                          {"cache_hit", report.cache_hit},
                                          {"specialisations", report.specialisations},
                                          {"trace_ms", report.trace_ms},
                                          {"traces", report.traces},
                                          {"compile_ms", report.compile_ms},
                                          {"total_ms", total.count()}})
              << "\n";
    return 0;
  }
  std::cout << arguments.output << ": " << describe_bytes(static_cast<double>(bytes)) << ", "
            << describe_count(report.nodes, "node") << ": "
            << describe_count(report.kernels, "kernel") << ", "
            << describe_count(report.extern_calls, "libtorch call") << "; ";
  if (report.trace_ms > 0) {
    std::cout << "traced in " << static_cast<int>(report.trace_ms) << " ms, ";
  }
  if (report.cache_hit) {
    std::cout << "from the cache";
  } else {
    std::cout << "compiled in " << static_cast<int>(report.compile_ms) << " ms";
  }
  std::cout << ", total " << static_cast<int>(total.count()) << " ms\n";
  return 0;
}

}  // namespace

void add_compile(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<CompileArguments>();
  CLI::App* command = app.add_subcommand("compile", "Compile an archive of torch.export.save");
  command->add_option("archive", arguments->input, "The archive (.pt2)")
      ->required()
      ->check(CLI::ExistingFile);
  command
      ->add_option("-o,--output", arguments->output, "The package (.pt2) or library (.so) to write")
      ->required();
  command->add_option(
      "--device", arguments->device, "cpu or cuda (default: where the archive's tensors are)");
  command->add_option(
      "--instances",
      arguments->instances,
      "Calls that may run at once where the package is loaded (default: its cores)");
  command->add_option(
      "--option",
      arguments->options,
      "name=value: isa, arch, check_inputs, check_indices, deterministic, profile, winograd, "
      "identity");
  command->add_option("--keep-source",
                      arguments->keep_source,
                      "Folder for the generated source; the cache is not used");
  command->add_flag("--no-cache", arguments->no_cache, "Neither read nor write the disk cache");
  command->footer(R"(Examples:
  kiln compile model.pt2 -o compiled.pt2             a package for any AOTInductor host
  kiln compile model.pt2 -o libmodel.so              the library alone
  kiln compile model.pt2 -o out.pt2 --option isa=x86-64-v2,x86-64-v4
  kiln compile model.pt2 -o out.pt2 --device cuda --option arch=sm_80,sm_90
  kiln compile model.pt2 -o out.pt2 --option profile=true   kernels show in PyTorch's profiler)");
  command->add_flag("--json", session.json, "Print a JSON object");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return compile_archive(*arguments, session.json); };
  });
}

}  // namespace kiln::tool

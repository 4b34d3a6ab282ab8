// kiln doctor: whether compiles work on this machine, and what to do about anything that is
// missing. What was found is "good", what is missing is "BAD" if it is needed and "none" if it is
// optional.

#include <ATen/Context.h>
#include <torch/version.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "commands.hpp"
#include "json_text.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::tool {
namespace {

struct Finding {
  std::string what;
  bool good = true;
  std::string detail;
  bool needed = true;
};

template <class Look>
Finding find(const std::string& what, Look look) {
  try {
    return {what, true, look()};
  } catch (const std::exception& error) {
    return {what, false, error.what()};
  }
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  findings.push_back({"libtorch", true, TORCH_VERSION});
  findings.push_back(find("compiler", [] { return codegen::compiler_version({}); }));
  findings.push_back(find("linker", [] { return codegen::linker_name({}); }));
  findings.push_back(
      find("runtime archive", [] { return codegen::find_runtime_archive().string(); }));
  findings.push_back(find("instruction set", [] { return codegen::resolve_target("native").isa; }));
  const autograd_cache::Cache cache;
  findings.push_back(
      {"cache",
       cache.enabled(),
       cache.enabled() ? cache.directory().string() : "cannot be used: set KILN_CACHE_DIR",
       false});
  const auto dot = find_program("dot");
  findings.push_back({"graphviz",
                      dot.has_value(),
                      dot ? dot->string() : "there is no dot: install graphviz to draw graphs",
                      false});
  const auto add_optional = [&](Finding finding) {
    finding.needed = false;
    findings.push_back(std::move(finding));
  };
  add_optional(find("NVRTC", [] { return codegen::nvrtc_version({}); }));
  add_optional(find("GPU", [] { return codegen::resolve_architectures({"native"}).front(); }));
  add_optional({"libtorch's CUDA",
                at::hasCUDA(),
                at::hasCUDA()
                    ? "available"
                    : "this libtorch has none: models for CUDA can be compiled here, but not run"});
  return findings;
}

int report_findings(bool json) {
  bool usable = true;
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& finding : examine()) {
    usable = usable && (finding.good || !finding.needed);
    if (json) {
      rows.push_back({{"what", finding.what},
                      {"good", finding.good},
                      {"needed", finding.needed},
                      {"detail", finding.detail}});
    } else {
      const char* const missing = finding.needed ? "BAD   " : "none  ";
      std::cout << (finding.good ? "good  " : missing) << finding.what << ": " << finding.detail
                << "\n";
    }
  }
  if (json) {
    std::cout << json_text(rows) << "\n";
  }
  return usable ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say whether compiler, libtorch, cache and the rest are usable");
  command->footer(R"(Examples:
  kiln doctor                                        exits with 1 if something needed is missing)");
  command->add_flag("--json", session.json, "Print JSON");
  command->callback(
      [&session] { session.action = [&session] { return report_findings(session.json); }; });
}

}  // namespace kiln::tool

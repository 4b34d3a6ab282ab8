// kiln: compiles programs of torch.export to model packages, and runs, measures and shows them.

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "kiln/jit/close_caches.hpp"
#include "kiln/version.hpp"

namespace {

constexpr const char* kExamples = R"(Examples:
  kiln compile model.pt2 -o compiled.pt2     an archive of torch.export.save to a package
  kiln run compiled.pt2                      on the sample inputs that came with it
  kiln bench compiled.pt2 --instances 4
  kiln inspect compiled.pt2
  kiln inspect model.pt2 --html model.html
  kiln doctor
Each command has examples of its own: kiln compile --help

Exit codes: 0 success, 1 failure (the reason is on standard error), 2 incorrect usage,
            3 a comparison failed, 130 interrupted.)";

// The first line of an exception of libtorch: the rest is a stack trace.
std::string first_line(const char* message) {
  const std::string text(message);
  return text.substr(0, text.find('\n'));
}

void complain(const kiln::tool::Session& session, const std::string& reason) {
  kiln::tool::finish_progress();
  if (session.json) {
    std::cout << kiln::tool::json_text(nlohmann::json{{"error", reason}}) << "\n";
  }
  std::cerr << kiln::tool::in_red("kiln:") << " " << reason << "\n";
}

int act(const kiln::tool::Session& session) {
  const kiln::tool::CleanInterruption interruption;
  try {
    return session.action();
  } catch (...) {
    interruption.check();
    throw;
  }
}

int run(int argc, char** argv) {
  CLI::App app("Ahead-of-time compilation for libtorch, without Python.", "kiln");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version",
                       "kiln " + std::string(kiln::version()) + ", libtorch " TORCH_VERSION);
  kiln::tool::Session session;
  kiln::tool::add_compile(app, session);
  kiln::tool::add_run(app, session);
  kiln::tool::add_bench(app, session);
  kiln::tool::add_inspect(app, session);
  kiln::tool::add_bisect(app, session);
  kiln::tool::add_cache(app, session);
  kiln::tool::add_doctor(app, session);
  kiln::tool::add_completion(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kiln::tool::kWrongUse;
  }

  try {
    return act(session);
  } catch (const c10::Error& error) {
    complain(session, first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    complain(session, error.what());
  }
  return kiln::tool::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  int code = run(argc, argv);
  kiln::close_caches();
  // Kiln has closed everything that it opened. A normal exit would also unregister libtorch's
  // operators one by one, which takes a tenth of a second.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  if (code == 0 && (!std::cout || std::ferror(stdout) != 0)) {
    std::cerr << kiln::tool::in_red("kiln:") << " cannot write to standard output\n";
    code = kiln::tool::kFailed;
  }
  std::_Exit(code);
}

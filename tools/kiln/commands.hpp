// The subcommands of `kiln`. Each adds itself to the command line and sets `action` when it is
// chosen.

#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kiln::tool {

/// Exit codes beside 0 (done).
inline constexpr int kFailed = 1;           ///< The reason is on standard error.
inline constexpr int kWrongUse = 2;         ///< The command line is not understood.
inline constexpr int kFoundDifference = 3;  ///< A comparison failed.

/// What every command shares.
struct Session {
  bool json = false;            ///< Print one JSON object instead of text.
  std::function<int()> action;  ///< The chosen command; returns the exit code.
};

void add_compile(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_inspect(CLI::App& app, Session& session);
void add_bisect(CLI::App& app, Session& session);
void add_cache(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);

}  // namespace kiln::tool

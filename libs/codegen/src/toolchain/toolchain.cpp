#include "toolchain/toolchain.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "kiln/base/error.hpp"
#include "kiln/base/subprocess.hpp"

namespace kiln::codegen {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) {
    result.push_back(word);
  }
  return result;
}

std::string first_lines(const std::string& text, int count) {
  std::size_t end = 0;
  while (count-- > 0 && end != std::string::npos && end < text.size()) {
    end = text.find('\n', end);
    end = end == std::string::npos ? end : end + 1;
  }
  std::string lines = text.substr(0, end);
  while (lines.ends_with('\n')) {
    lines.pop_back();
  }
  return lines;
}

// The command to use: what the caller or the environment names must exist, the rest is a search.
std::vector<std::string> choose_command(const std::string& wanted) {
  std::string named = wanted;
  for (const char* variable : {"KILN_CXX", "CXX"}) {
    const char* value = std::getenv(variable);
    if (named.empty() && value != nullptr) {
      named = value;
    }
  }
  if (const std::vector<std::string> command = words(named); !command.empty()) {
    if (!find_program(command[0])) {
      throw Error(ErrorCode::kIo, "the C++ compiler " + command[0] + " does not exist");
    }
    return command;
  }
  for (const char* name : {"g++", "clang++", "c++"}) {
    if (find_program(name)) {
      return {name};
    }
  }
  throw Error(ErrorCode::kIo,
              "there is no C++ compiler: install g++ or clang++, or name one in $KILN_CXX");
}

// What is not a program in a command like "ccache g++ -ffast-math".
std::string flags_in(const std::vector<std::string>& command) {
  std::string flags;
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (!find_program(command[i])) {
      flags += (flags.empty() ? "" : " ") + command[i];
    }
  }
  return flags;
}

Compiler try_compiler(std::vector<std::string> command, std::chrono::milliseconds timeout) {
  std::vector<std::string> ask = command;
  ask.emplace_back("--version");
  const ProcessResult version = run_process(ask, {.timeout = timeout});
  if (!version.ok()) {
    throw Error(ErrorCode::kIo,
                "the C++ compiler " + command[0] + " does not work: " +
                    (version.timed_out ? "it hangs" : first_lines(version.error, 3)));
  }
  std::string flags = flags_in(command);
  return {.command = std::move(command),
          .version = first_lines(version.output, 1),
          .flags = std::move(flags)};
}

}  // namespace

const Compiler& find_compiler(const std::string& wanted, std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, Compiler> known;
  std::vector<std::string> command = choose_command(wanted);
  const std::lock_guard lock(mutex);
  const auto found = known.find(command);
  if (found != known.end()) {
    return found->second;
  }
  return known.emplace(command, try_compiler(command, timeout)).first->second;
}

std::optional<std::string> stamp_of_compiler(const std::string& wanted) {
  std::string stamp;
  try {
    for (const std::string& word : choose_command(wanted)) {
      stamp += word + " ";
      // Behind "ccache g++" stand two programs, and either may be replaced.
      if (const auto program = find_program(word)) {
        const std::filesystem::path path = std::filesystem::canonical(*program);
        stamp += path.string() + " " + std::to_string(std::filesystem::file_size(path)) + " " +
                 std::to_string(std::filesystem::last_write_time(path).time_since_epoch().count()) +
                 " ";
      }
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return stamp;
}

void run_compiler(const Compiler& compiler,
                  const std::vector<std::string>& arguments,
                  std::chrono::milliseconds timeout,
                  const std::string& what,
                  const std::filesystem::path& source) {
  std::vector<std::string> command = compiler.command;
  command.insert(command.end(), arguments.begin(), arguments.end());
  // Messages in English, whatever the user reads elsewhere.
  const ProcessResult result =
      run_process(command, {.environment = {{"LC_ALL", "C"}}, .timeout = timeout});
  if (result.ok()) {
    return;
  }
  std::string message = what + " failed: " + compiler.command[0];
  if (result.timed_out) {
    message += " took longer than " + std::to_string(timeout.count()) + " ms";
  } else {
    message += " said:\n" + first_lines(result.error, 8);
  }
  if (!source.empty()) {
    message += "\nThe source is kept in " + source.string();
  }
  throw Error(ErrorCode::kIo, message);
}

}  // namespace kiln::codegen

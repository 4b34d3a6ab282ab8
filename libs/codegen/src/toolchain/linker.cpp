#include "toolchain/linker.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::codegen {
namespace {

constexpr const char* kDefault = "the compiler's default";

// Where gold takes a third of the time of GNU ld, which is what compilers call by themselves.
#if defined(__x86_64__)
constexpr bool kPreferGold = true;
#else
constexpr bool kPreferGold = false;
#endif

std::string link_stand_in(const Compiler& compiler,
                          std::vector<std::string> flags,
                          std::chrono::milliseconds timeout) {
  const TemporaryDirectory directory("kiln-probe");
  const std::filesystem::path stand_in = directory.path() / "libtorch_cpu.so";
  flags.insert(flags.end(),
               {"-shared",
                "-Wl,-soname,libtorch_cpu.so",
                "-x",
                "assembler",
                "/dev/null",
                "-o",
                stand_in.string()});
  run_compiler(compiler, flags, timeout, "the trial link", {});
  return read_file(stand_in);
}

// What follows the compiler's name in the message of `run_compiler`.
std::string reason_of(const Error& error) {
  const std::string message = error.what();
  const std::size_t line = message.find('\n');
  return line == std::string::npos
             ? message
             : message.substr(line + 1, message.find('\n', line + 1) - line - 1);
}

Linker try_linkers(const Compiler& compiler, std::chrono::milliseconds timeout) {
  std::string name = kDefault;
  if (kPreferGold && find_program("ld.gold")) {
    // To a library without a name it would give that of the file it writes, with its path.
    const std::vector<std::string> gold{"-fuse-ld=gold", "-Wl,-soname,kiln-model.so"};
    // With the libraries of a model, although the stand-in uses none of them: a compiler that does
    // not lie where the system's does may bring some that only its own linker can read.
    std::vector<std::string> trial = gold;
    trial.insert(trial.end(), {"-nostartfiles", "-fopenmp", "-Wl,--as-needed"});
    try {
      return {.name = "gold",
              .flags = gold,
              .libtorch_stand_in = link_stand_in(compiler, std::move(trial), timeout)};
    } catch (const Error& error) {
      name += "; gold does not work with it: " + reason_of(error);
    }
  }
  return {.name = name,
          .flags = {},
          .libtorch_stand_in = link_stand_in(compiler, {"-nostdlib"}, timeout)};
}

}  // namespace

const Linker& find_linker(const Compiler& compiler, std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, Linker> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(compiler.command);
  if (found != known.end()) {
    return found->second;
  }
  return known.emplace(compiler.command, try_linkers(compiler, timeout)).first->second;
}

}  // namespace kiln::codegen

#include "kiln/base/subprocess.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

ProcessResult shell(const std::string& script, const ProcessOptions& options = {}) {
  return run_process({"sh", "-c", script}, options);
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_CASE("a process's outputs and exit code are returned", "[base][subprocess]") {
  const ProcessResult result = shell("printf out; printf err >&2; exit 3");
  CHECK(result.output == "out");
  CHECK(result.error == "err");
  CHECK(result.exit_code == 3);
  CHECK_FALSE(result.timed_out);
  CHECK_FALSE(result.ok());
  CHECK(run_process({"true"}).ok());
}

TEST_CASE("a signal's number is in the exit code", "[base][subprocess]") {
  CHECK(shell("kill -SEGV $$").exit_code == 128 + SIGSEGV);
}

TEST_CASE("arguments reach the program as they are", "[base][subprocess]") {
  const std::string awkward = "$HOME `id` 'a' \"b\" \\ *\n;";
  CHECK(run_process({"printf", "%s", awkward}).output == awkward);
}

TEST_CASE("input larger than a pipe passes through", "[base][subprocess]") {
  std::string input(1'000'000, 'x');
  input += '\0';
  CHECK(run_process({"cat"}, {.input = input}).output == input);
  CHECK(run_process({"cat"}).output.empty());
}

TEST_CASE("both outputs may be large", "[base][subprocess]") {
  const ProcessResult result =
      shell("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 5 /dev/zero >&2");
  CHECK(result.output.size() == 300'000);
  CHECK(result.error.size() == 300'005);
}

TEST_CASE("a program that does not read its input does no harm", "[base][subprocess]") {
  const std::string input(1'000'000, 'x');
  CHECK(run_process({"true"}, {.input = input}).ok());
  CHECK(shell("exec 0<&-; sleep 0.05; echo done", {.input = input}).output == "done\n");
}

TEST_CASE("the environment is the caller's and what is added", "[base][subprocess]") {
  ::setenv("KILN_SUBPROCESS_TEST", "outer", 1);
  CHECK(shell("echo $KILN_SUBPROCESS_TEST").output == "outer\n");
  const ProcessResult result =
      shell("echo $KILN_SUBPROCESS_TEST $KILN_OTHER",
            {.environment = {{"KILN_SUBPROCESS_TEST", "inner"}, {"KILN_OTHER", "a=b"}}});
  ::unsetenv("KILN_SUBPROCESS_TEST");
  CHECK(result.output == "inner a=b\n");
}

TEST_CASE("the working directory is the one asked for", "[base][subprocess]") {
  const TemporaryDirectory directory;
  const ProcessResult result = run_process({"pwd", "-P"}, {.working_directory = directory.path()});
  CHECK(result.output == fs::canonical(directory.path()).string() + "\n");
}

TEST_CASE("a program that cannot start is an i/o error that says why", "[base][subprocess]") {
  const auto code_of = [](const std::vector<std::string>& command, const ProcessOptions& options) {
    try {
      static_cast<void>(run_process(command, options));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  CHECK(code_of({"no-such-program"}, {}) == ErrorCode::kIo);
  CHECK(code_of({"/dev/null"}, {}) == ErrorCode::kIo);
  CHECK(code_of({"true"}, {.working_directory = "/none/such"}) == ErrorCode::kIo);
  CHECK(code_of({}, {}) == ErrorCode::kInvalidArgument);
  CHECK_THROWS_WITH(
      run_process({"no-such-program"}),
      testing::contains("no-such-program") && testing::contains("No such file or directory"));
}

TEST_CASE("a timeout kills the program and its children", "[base][subprocess]") {
  const TemporaryDirectory directory;
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = shell("echo early; (sleep 1; touch survived) & sleep 60",
                                     {.working_directory = directory.path(), .timeout = 200ms});
  const auto elapsed = std::chrono::steady_clock::now() - start;

  CHECK(result.timed_out);
  CHECK_FALSE(result.ok());
  CHECK(result.exit_code == 128 + SIGKILL);
  CHECK(result.output == "early\n");
  CHECK(elapsed < 20s);
  std::this_thread::sleep_for(1500ms);
  CHECK_FALSE(fs::exists(directory.path() / "survived"));
}

TEST_CASE("a program that closes its outputs can still time out", "[base][subprocess]") {
  const ProcessResult result = shell("exec >&- 2>&-; exec sleep 60", {.timeout = 100ms});
  CHECK(result.timed_out);
  CHECK(shell("exec >&- 2>&-; sleep 0.05; exit 7", {.timeout = 20s}).exit_code == 7);
}

TEST_CASE("nothing is left behind: no descriptor, no zombie", "[base][subprocess]") {
  const std::size_t before = open_descriptors();
  static_cast<void>(shell("exit 1", {.input = "x"}));
  static_cast<void>(shell("sleep 60", {.timeout = 20ms}));
  CHECK_THROWS_AS(run_process({"no-such-program"}), Error);

  CHECK(open_descriptors() == before);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a program does not inherit the pipes of another", "[base][subprocess]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "descriptors";
  REQUIRE(std::system(("ls /proc/self/fd > " + path.string()).c_str()) == 0);
  std::thread other([] { static_cast<void>(run_process({"sleep", "0.3"})); });
  std::this_thread::sleep_for(100ms);
  const std::string descriptors = run_process({"ls", "/proc/self/fd"}).output;
  other.join();

  CHECK(descriptors == read_file(path));
}

TEST_CASE("processes run from several threads do not disturb each other", "[base][subprocess]") {
  std::vector<std::string> outputs(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&outputs, i] {
      for (int round = 0; round < 5; ++round) {
        outputs[i] += run_process({"cat"}, {.input = std::to_string(i)}).output;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(outputs[i] == std::string(5, static_cast<char>('0' + i)));
  }
}

// In a process of its own: none can be started there afterwards.
int interrupt_two_programs(const fs::path& directory) {
  ProcessResult first, second;
  std::thread one(
      [&] { first = shell("touch first; sleep 60 & wait", {.working_directory = directory}); });
  std::thread two(
      [&] { second = shell("touch second; sleep 60", {.working_directory = directory}); });
  while (!fs::exists(directory / "first") || !fs::exists(directory / "second")) {
    std::this_thread::sleep_for(1ms);
  }
  end_processes();
  one.join();
  two.join();
  if (first.exit_code != 128 + SIGKILL || second.exit_code != 128 + SIGKILL) {
    return 1;
  }
  try {
    static_cast<void>(shell("true"));
  } catch (const Error&) {
    return 0;
  }
  return 2;
}

TEST_CASE("whoever is interrupted ends all programs that run and starts no other",
          "[base][subprocess]") {
  const TemporaryDirectory directory;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(interrupt_two_programs(directory.path()));
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::chrono::steady_clock::now() - start < 50s);
}

TEST_CASE("a program is found in PATH or where its name says", "[base][subprocess]") {
  const auto found = find_program("sh");
  REQUIRE(found.has_value());
  CHECK(found->filename() == "sh");
  CHECK(find_program(found->string()) == found);
  CHECK_FALSE(find_program("no-such-program").has_value());
  CHECK_FALSE(find_program("").has_value());
  CHECK_FALSE(find_program("/etc").has_value());

  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "sh", "not executable");
  CHECK_FALSE(find_program((directory.path() / "sh").string()).has_value());
}

}  // namespace
}  // namespace kiln

#include "kiln/base/subprocess.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/file_descriptor.hpp"
#include "process_streams.hpp"

extern "C" char** environ;  // Not every <unistd.h> declares it.

namespace kiln {
namespace fs = std::filesystem;

namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

// A process that closed its standard streams gets pipes numbered 0 to 2, which the child's own
// would overwrite: move them out of the way.
FileDescriptor above_standard_streams(FileDescriptor given) {
  if (given.number() > STDERR_FILENO) {
    return given;
  }
  FileDescriptor moved(::fcntl(given.number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved.open()) {
    throw_io("cannot duplicate a pipe", errno);
  }
  return moved;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw_io("cannot create a pipe", errno);
  }
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  pipe.read = above_standard_streams(std::move(pipe.read));
  pipe.write = above_standard_streams(std::move(pipe.write));
  return pipe;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!added.contains(std::string(text.substr(0, text.find('='))))) {
      merged.emplace_back(text);
    }
  }
  for (const auto& [name, value] : added) {
    merged.push_back(name + "=" + value);
  }
  return merged;
}

std::vector<char*> null_terminated(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnActions {
 public:
  SpawnActions() { check(::posix_spawn_file_actions_init(&actions_)); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void connect(const FileDescriptor& from, int to) {
    check(::posix_spawn_file_actions_adddup2(&actions_, from.number(), to));
  }
  void change_directory(const fs::path& path) {
    check(::posix_spawn_file_actions_addchdir_np(&actions_, path.c_str()));
  }
  [[nodiscard]] const posix_spawn_file_actions_t* native() const { return &actions_; }

 private:
  static void check(int code) {
    if (code != 0) {
      throw_io("cannot prepare a process", code);
    }
  }
  posix_spawn_file_actions_t actions_{};
};

// A process group of its own, no blocked signals, and SIGPIPE as programs expect it.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigaddset(&signals, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  [[nodiscard]] const posix_spawnattr_t* native() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// The processes that are being waited for. What is in it is not reaped yet, so its number cannot
// belong to anyone else.
class RunningProcesses {
 public:
  static RunningProcesses& instance() {
    // Never destroyed: a thread may end a process while the program exits.
    static auto* const running = new RunningProcesses;
    return *running;
  }

  // Started under the lock: none may slip through between its start and its registration.
  template <class Start>
  pid_t add(Start&& start) {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      throw Error(ErrorCode::kIo, "cannot start a subprocess during shutdown");
    }
    const pid_t id = start();
    ids_.insert(id);
    return id;
  }
  void remove(pid_t id) {
    const std::lock_guard lock(mutex_);
    ids_.erase(id);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (const pid_t id : ids_) {
      ::kill(-id, SIGKILL);
    }
  }

 private:
  std::mutex mutex_;
  std::set<pid_t> ids_;
  bool ended_ = false;
};

// A started process: reaped exactly once, and killed with its group if it is given up.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (!reaped_) {
      kill_group();
      wait();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill_group() const { ::kill(-id_, SIGKILL); }

  void wait() { reap(0); }
  [[nodiscard]] bool wait_until(Clock::time_point deadline) {
    std::chrono::microseconds pause(100);
    while (!reap(WNOHANG)) {
      if (Clock::now() >= deadline) {
        return false;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds(10));
    }
    return true;
  }

  [[nodiscard]] int exit_code() const {
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  bool reap(int flags) {
    siginfo_t ended{};
    int code = -1;
    do {
      code = ::waitid(P_PID, static_cast<id_t>(id_), &ended, WEXITED | WNOWAIT | flags);
    } while (code != 0 && errno == EINTR);
    if (code == 0 && ended.si_pid == 0) {
      return false;  // Still running.
    }
    // Before its number is free again.
    RunningProcesses::instance().remove(id_);
    // A host that ignores SIGCHLD has its children reaped by the kernel: nothing is left to ask.
    while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return true;
  }

  pid_t id_;
  int status_ = 0;
  bool reaped_ = false;
};

pid_t spawn(const std::vector<std::string>& command,
            const ProcessOptions& options,
            const Pipe& input,
            const Pipe& output,
            const Pipe& error) {
  SpawnActions actions;
  actions.connect(input.read, STDIN_FILENO);
  actions.connect(output.write, STDOUT_FILENO);
  actions.connect(error.write, STDERR_FILENO);
  if (!options.working_directory.empty()) {
    actions.change_directory(options.working_directory);
  }

  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = merged_environment(options.environment);
  pid_t id = 0;
  const int code = ::posix_spawnp(&id,
                                  command.front().c_str(),
                                  actions.native(),
                                  SpawnAttributes().native(),
                                  null_terminated(arguments).data(),
                                  null_terminated(environment).data());
  if (code != 0) {
    const std::string place =
        options.working_directory.empty() ? "" : " in " + options.working_directory.string();
    throw_io("cannot run " + command.front() + place, code);
  }
  return id;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  if (command.empty() || command.front().empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the command is empty");
  }
  std::optional<Clock::time_point> deadline;
  if (options.timeout) {
    deadline = Clock::now() + *options.timeout;
  }

  Pipe input = make_pipe();
  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Child child(RunningProcesses::instance().add(
      [&] { return spawn(command, options, input, output, error); }));
  // While we hold the child's ends we would never see the end of its output.
  input.read.close();
  output.write.close();
  error.write.close();
  ProcessStreams streams(
      std::move(input.write), std::move(output.read), std::move(error.read), options.input);

  ProcessResult result;
  if (!deadline) {
    static_cast<void>(streams.pump(deadline));
    child.wait();
  } else if (!streams.pump(deadline) || !child.wait_until(*deadline)) {
    result.timed_out = true;
    child.kill_group();
    child.wait();
    streams.drain();
  }
  result.exit_code = child.exit_code();
  result.output = streams.take_output();
  result.error = streams.take_error();
  return result;
}

void end_processes() noexcept {
  RunningProcesses::instance().end();
}

std::optional<fs::path> find_program(const std::string& program) {
  const auto runnable = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) {
    return runnable(program) ? std::optional<fs::path>(program) : std::nullopt;
  }

  const char* variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable;
  while (!program.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    const fs::path candidate = fs::path(directory.empty() ? "." : directory) / program;
    if (runnable(candidate)) {
      return candidate;
    }
    if (directory.size() == rest.size()) {
      break;
    }
    rest.remove_prefix(directory.size() + 1);
  }
  return std::nullopt;
}

}  // namespace kiln

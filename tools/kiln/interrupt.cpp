#include "interrupt.hpp"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "kiln/base/file.hpp"
#include "kiln/base/pending_file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::tool {
namespace fs = std::filesystem;

namespace {

constexpr int kMostTries = 100;
constexpr std::chrono::milliseconds kBetweenTries(10);

// As `nohup` and shells with jobs in the background ask.
bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

CleanInterruption::CleanInterruption()
    : directory_(TemporaryDirectory("kiln-tool").release()),
      interrupted_(std::make_shared<std::atomic<bool>>(false)) {
  ::setenv("TMPDIR", directory_.c_str(), 1);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) {
      ::sigaddset(&signals, signal);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A thread rather than a handler: it may lock, allocate and call whatever it needs.
  std::thread([signals, directory = directory_, interrupted = interrupted_] {
    int signal = 0;
    while (::sigwait(&signals, &signal) != 0) {
    }
    *interrupted = true;
    end_processes();
    remove_pending_files();
    remove_tree(directory);
    // Another thread may have been writing a file there at that moment.
    std::error_code unknown;
    for (int tries = 0; tries < kMostTries && fs::exists(directory, unknown); ++tries) {
      std::this_thread::sleep_for(kBetweenTries);
      remove_tree(directory);
    }
    remove_pending_files();
    std::fputs(::isatty(STDERR_FILENO) != 0 ? "\r\033[Kkiln: interrupted\n" : "kiln: interrupted\n",
               stderr);
    ::_exit(128 + signal);
  }).detach();
}

void CleanInterruption::check() const {
  while (*interrupted_) {
    ::pause();
  }
}

CleanInterruption::~CleanInterruption() {
  check();
  std::error_code ignored;
  fs::remove(directory_, ignored);
}

}  // namespace kiln::tool

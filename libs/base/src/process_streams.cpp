#include "process_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <system_error>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln {

namespace {

void make_non_blocking(const FileDescriptor& descriptor) {
  const int flags = ::fcntl(descriptor.number(), F_GETFL);
  if (flags < 0 || ::fcntl(descriptor.number(), F_SETFL, flags | O_NONBLOCK) != 0) {
    throw_io("cannot prepare a pipe", errno);
  }
}

// Writes without dying of SIGPIPE, whatever the host does with that signal.
ssize_t write_quietly(int descriptor, std::string_view bytes) {
  sigset_t broken_pipe;
  sigset_t pending;
  sigset_t before;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);

  const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
  const int code = errno;
  if (written < 0 && code == EPIPE && ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{};
    while (::sigtimedwait(&broken_pipe, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return written;
}

// -1 (for ever) without a deadline, 0 once it has passed.
int remaining_milliseconds(std::optional<Clock::time_point> deadline) {
  if (!deadline) {
    return -1;
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 1'000'000));
}

}  // namespace

void throw_io(const std::string& what, int code) {
  throw Error(ErrorCode::kIo, what + ": " + std::generic_category().message(code));
}

ProcessStreams::ProcessStreams(FileDescriptor input,
                               FileDescriptor output,
                               FileDescriptor error,
                               std::string_view bytes)
    : input_(std::move(input)), input_bytes_(bytes) {
  sources_[0].descriptor = std::move(output);
  sources_[1].descriptor = std::move(error);
  make_non_blocking(input_);
  make_non_blocking(sources_[0].descriptor);
  make_non_blocking(sources_[1].descriptor);
  close_input_at_end();
}

bool ProcessStreams::pump(std::optional<Clock::time_point> deadline) {
  while (sources_[0].descriptor.open() || sources_[1].descriptor.open()) {
    // poll(2) passes over the closed ones: their number is negative.
    std::array<pollfd, 3> waiting = {{{input_.number(), POLLOUT, 0},
                                      {sources_[0].descriptor.number(), POLLIN, 0},
                                      {sources_[1].descriptor.number(), POLLIN, 0}}};
    const int milliseconds = remaining_milliseconds(deadline);
    if (milliseconds == 0) {
      return false;
    }
    if (::poll(waiting.data(), waiting.size(), milliseconds) < 0 && errno != EINTR) {
      throw_io("cannot wait for a process", errno);
    }
    if (waiting[0].revents != 0) {
      feed();
    }
    drain();
  }
  return true;
}

void ProcessStreams::drain() {
  for (Source& source : sources_) {
    drain(source);
  }
}

void ProcessStreams::drain(Source& source) {
  std::array<char, 16384> buffer;
  while (source.descriptor.open()) {
    const ssize_t count = ::read(source.descriptor.number(), buffer.data(), buffer.size());
    if (count > 0) {
      source.text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      source.descriptor.close();
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      throw_io("cannot read from a process", errno);
    }
  }
}

void ProcessStreams::feed() {
  const ssize_t written = write_quietly(input_.number(), input_bytes_);
  if (written >= 0) {
    input_bytes_.remove_prefix(static_cast<std::size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    input_bytes_ = {};  // The program does not want the rest, which is its right.
  }
  close_input_at_end();
}

void ProcessStreams::close_input_at_end() {
  if (input_bytes_.empty()) {
    input_.close();
  }
}

}  // namespace kiln

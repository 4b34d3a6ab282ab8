// The parent's side of a child's standard streams.

#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/base/file_descriptor.hpp"

namespace kiln {

using Clock = std::chrono::steady_clock;

/// Throws `Error` with `kIo`: "<what>: <text of errno `code`>".
[[noreturn]] void throw_io(const std::string& what, int code);

/// Feeds a child's standard input and gathers its outputs, all at once so that nobody waits for us.
class ProcessStreams {
 public:
  /// Takes our ends of the three pipes; `bytes` must outlive this.
  ProcessStreams(FileDescriptor input,
                 FileDescriptor output,
                 FileDescriptor error,
                 std::string_view bytes);

  /// Moves bytes until both outputs are closed. Returns false if the deadline came first.
  [[nodiscard]] bool pump(std::optional<Clock::time_point> deadline);

  /// Takes what is there, without waiting.
  void drain();

  [[nodiscard]] std::string take_output() { return std::move(sources_[0].text); }
  [[nodiscard]] std::string take_error() { return std::move(sources_[1].text); }

 private:
  struct Source {
    FileDescriptor descriptor;
    std::string text;
  };

  static void drain(Source& source);
  void feed();
  void close_input_at_end();

  FileDescriptor input_;
  std::string_view input_bytes_;
  std::array<Source, 2> sources_;
};

}  // namespace kiln

// What the libraries say while they work, on standard error, as far as KILN_LOG lets them.
//
// KILN_LOG is off | error | warning | info | debug (default: warning), or a list by component:
// KILN_LOG=warning,codegen=debug.

#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

namespace kiln {

/// How much is said: each level includes the ones before it.
enum class LogLevel { kOff, kError, kWarning, kInfo, kDebug };

/// What a value of KILN_LOG lets through.
class LogFilter {
 public:
  /// Parts of `text` that are not understood are ignored.
  explicit LogFilter(std::string_view text);

  /// Whether `component` may speak at `level`.
  [[nodiscard]] bool enabled(LogLevel level, std::string_view component) const;

 private:
  LogLevel level_ = LogLevel::kWarning;
  std::map<std::string, LogLevel, std::less<>> components_;
};

/// Whether `component` (a library's name) may speak at `level`, as KILN_LOG was at the first call.
[[nodiscard]] bool log_enabled(LogLevel level, std::string_view component);

/// Writes one line, whole, whichever threads are writing.
void log(LogLevel level, std::string_view component, std::string_view message);

}  // namespace kiln

/// KILN_LOG(kInfo, "codegen", "compiled " << n << " kernels"): the message is built only if it is
/// wanted.
#define KILN_LOG(level, component, message)                                   \
  do {                                                                        \
    if (::kiln::log_enabled(::kiln::LogLevel::level, component)) {            \
      std::ostringstream kiln_log_stream;                                     \
      kiln_log_stream << message;                                             \
      ::kiln::log(::kiln::LogLevel::level, component, kiln_log_stream.str()); \
    }                                                                         \
  } while (false)

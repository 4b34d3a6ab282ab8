#include "kiln/base/log.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

namespace kiln {

namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {
    "off", "error", "warning", "info", "debug"};

std::optional<LogLevel> parse_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) {
      return static_cast<LogLevel>(i);
    }
  }
  return std::nullopt;
}

std::string_view environment_filter() {
  const char* value = std::getenv("KILN_LOG");
  return value == nullptr ? "" : value;
}

}  // namespace

LogFilter::LogFilter(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(part.size() == text.size() ? part.size() : part.size() + 1);

    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      level_ = parse_level(part).value_or(level_);
    } else if (const auto level = parse_level(part.substr(equals + 1))) {
      components_.insert_or_assign(std::string(part.substr(0, equals)), *level);
    }
  }
}

bool LogFilter::enabled(LogLevel level, std::string_view component) const {
  const auto found = components_.find(component);
  const LogLevel limit = found == components_.end() ? level_ : found->second;
  return level != LogLevel::kOff && level <= limit;
}

bool log_enabled(LogLevel level, std::string_view component) {
  static const LogFilter filter(environment_filter());
  return filter.enabled(level, component);
}

void log(LogLevel level, std::string_view component, std::string_view message) {
  if (!log_enabled(level, component)) {
    return;
  }
  std::string line = "kiln: ";
  line += component;
  line += ": ";
  line += kLevelNames[static_cast<std::size_t>(level)];
  line += ": ";
  line += message;
  line += '\n';

  // One call, past every buffer: lines of several threads do not mix.
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) {
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written < 0 ? 0 : written));
  }
}

}  // namespace kiln

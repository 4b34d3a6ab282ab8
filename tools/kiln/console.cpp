#include "console.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "kiln/ir/types.hpp"

namespace kiln::tool {
namespace {

bool is_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  return terminal;
}

std::string bar(int done, int total) {
  constexpr int kWidth = 24;
  const int filled = total > 0 ? kWidth * done / total : 0;
  return "[" + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(kWidth - filled), '.') + "]";
}

}  // namespace

std::function<void(const Progress&)> progress_reporter() {
  const auto start = std::chrono::steady_clock::now();
  const auto last_stage = std::make_shared<std::optional<Stage>>();
  return [=](const Progress& step) {
    const std::string stage(to_string(step.stage));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (is_terminal()) {
      std::fprintf(stderr,
                   "\r%-10s %s %d/%d  %.1f s\033[K",
                   stage.c_str(),
                   bar(step.done, step.total).c_str(),
                   step.done,
                   step.total,
                   seconds);
      std::fflush(stderr);
    } else if (*last_stage != step.stage) {
      std::fprintf(stderr, "%.1f s  %s\n", seconds, stage.c_str());
      *last_stage = step.stage;
    }
  };
}

void finish_progress() {
  if (is_terminal()) {
    std::fprintf(stderr, "\r\033[K");
  }
}

std::string in_red(const std::string& text) {
  const char* const plain = std::getenv("NO_COLOR");
  return is_terminal() && (plain == nullptr || *plain == '\0') ? "\033[1;31m" + text + "\033[0m"
                                                               : text;
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return "none";
  }
  std::ostringstream text;
  text << ir::to_string(static_cast<ir::DType>(tensor.scalar_type())) << "[";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    text << (i == 0 ? "" : ", ") << tensor.size(i);
  }
  text << "]";
  return text.str();
}

}  // namespace kiln::tool

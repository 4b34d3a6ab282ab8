// How many versions of a function may be compiled.

#pragma once

#include <atomic>
#include <string>

#include "kiln/base/error.hpp"

namespace kiln::detail {

/// Counts compiled versions up to `CompileOptions::max_versions`. A typed function is compiled as
/// one function of tensors for each structure of its arguments, and they share one budget.
class VersionBudget {
 public:
  explicit VersionBudget(int limit) : limit_(limit) {}

  /// How many versions were taken. Another thread may be compiling one of them.
  [[nodiscard]] int used() const { return used_; }
  [[nodiscard]] bool is_spent() const { return used_ >= limit_; }

  /// Counts one more version; false if the limit is reached.
  [[nodiscard]] bool take() {
    int count = used_;
    while (count < limit_) {
      if (used_.compare_exchange_weak(count, count + 1)) {
        return true;
      }
    }
    return false;
  }

  /// Uncounts a version that could not be compiled.
  void give_back() { --used_; }

  /// What to throw when the budget is spent: `reason` is why no version holds, `advice` what else
  /// can be done about it.
  [[nodiscard]] Error refusal(const std::string& reason, const std::string& advice = {}) const {
    return {ErrorCode::kUnsupported,
            "recompile limit reached (max_versions = " + std::to_string(limit_) + ")" +
                (reason.empty() ? "" : ": " + reason) + "; " + advice +
                "raise max_versions or set fallback_to_eager"};
  }

 private:
  const int limit_;
  std::atomic<int> used_ = 0;
};

}  // namespace kiln::detail

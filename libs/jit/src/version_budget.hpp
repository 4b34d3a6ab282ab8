// How many versions of a function may be compiled.

#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln::detail {

/// Counts compiled versions up to `CompileOptions::max_versions`. A typed function is compiled as
/// one function of tensors for each structure of its arguments, and they share one budget.
/// Thread-safe.
class VersionBudget {
 public:
  explicit VersionBudget(int limit) : limit_(limit) {}

  /// How many versions were taken. Another thread may be compiling one of them.
  [[nodiscard]] int used() const { return used_; }
  [[nodiscard]] bool is_spent() const { return used_ >= limit_; }

  /// Counts one more version; false if the limit is reached.
  [[nodiscard]] bool take();
  /// Uncounts a version that could not be compiled.
  void give_back() { --used_; }

  /// Remembers why a version was compiled beside the others.
  void note_recompile(std::string reason);

  /// What to throw when the budget is spent: `reason` is why no version holds, `advice` what else
  /// can be done about it.
  [[nodiscard]] Error refusal(const std::string& reason, const std::string& advice = {}) const;

  /// Warns that calls run eagerly from now on, with the reason of each recompile. Only the first
  /// call does anything.
  void warn_of_eager_calls(const std::string& reason, const std::string& advice = {});

 private:
  const int limit_;
  std::atomic<int> used_ = 0;
  std::atomic<bool> has_warned_ = false;
  std::mutex reasons_lock_;
  std::vector<std::string> reasons_;
};

}  // namespace kiln::detail

#include "version_budget.hpp"

#include <utility>

#include "kiln/base/log.hpp"

namespace kiln::detail {

bool VersionBudget::take() {
  int count = used_;
  while (count < limit_) {
    if (used_.compare_exchange_weak(count, count + 1)) {
      return true;
    }
  }
  return false;
}

void VersionBudget::note_recompile(std::string reason) {
  const std::lock_guard lock(reasons_lock_);
  reasons_.push_back(std::move(reason));
}

Error VersionBudget::refusal(const std::string& reason, const std::string& advice) const {
  return {ErrorCode::kUnsupported,
          "recompile limit reached (max_versions = " + std::to_string(limit_) + ")" +
              (reason.empty() ? "" : ": " + reason) + "; " + advice +
              "raise max_versions or leave error_at_max_versions off"};
}

void VersionBudget::warn_of_eager_calls(const std::string& reason, const std::string& advice) {
  if (has_warned_.exchange(true)) {
    return;
  }
  std::string recompiles;
  {
    const std::lock_guard lock(reasons_lock_);
    for (const std::string& recompile : reasons_) {
      recompiles += recompile + "; ";
    }
  }
  KILN_LOG(kWarning,
           "kiln",
           "recompile limit reached (max_versions = "
               << limit_ << "): calls that match no compiled version run eagerly. "
               << (recompiles.empty() ? "" : "Recompiled for: " + recompiles)
               << (reason.empty() ? "" : "Not compiled for: " + reason + "; ") << advice
               << "raise max_versions to compile more");
}

}  // namespace kiln::detail

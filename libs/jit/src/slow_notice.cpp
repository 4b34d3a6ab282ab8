#include "slow_notice.hpp"

#include "kiln/base/log.hpp"

namespace kiln {

SlowNotice::SlowNotice(std::string task, std::chrono::milliseconds patience)
    : task_(std::move(task)) {
  if (log_enabled(LogLevel::kWarning, "progress")) {
    thread_ = std::thread([this, patience] { wait(patience); });
  }
}

SlowNotice::~SlowNotice() {
  {
    const std::lock_guard guard(lock_);
    has_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SlowNotice::set_stage(const Progress& progress) {
  const std::lock_guard guard(lock_);
  stage_ = std::string(to_string(progress.stage)) + ", " + std::to_string(progress.done) + " of " +
           std::to_string(progress.total) + " done";
}

void SlowNotice::wait(std::chrono::milliseconds patience) {
  std::unique_lock guard(lock_);
  if (!ended_.wait_for(guard, patience, [&] { return has_ended_; })) {
    KILN_LOG(kWarning,
             "progress",
             task_ << " takes longer than " << patience.count() << " ms"
                   << (stage_.empty() ? "" : " (now: " + stage_ + ")")
                   << "; KILN_LOG=warning,progress=off silences this");
  }
}

}  // namespace kiln

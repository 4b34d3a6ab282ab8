// Says what a compile is doing when somebody has to wait for it.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "kiln/jit/options.hpp"

namespace kiln {

/// Logs one warning, of the component "progress", if it lives longer than `patience`.
class SlowNotice {
 public:
  /// `task` is a sentence's subject: "tracing the function".
  explicit SlowNotice(std::string task,
                      std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;

  /// How far it is.
  void set_stage(const Progress& progress);

 private:
  void wait(std::chrono::milliseconds patience);

  const std::string task_;
  std::mutex lock_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::string stage_;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace kiln

// Calls that wait for a worker, in a bounded queue over TBB.

#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>

#include "kiln/container_runtime/runner.hpp"

namespace kiln::container_runtime {

/// Runs calls on workers, first come first served.
class RunQueue {
 public:
  /// Runs on a worker, not on the thread that queued it.
  using Call = std::function<Tensors(Tensors&&)>;

  /// At most `concurrency` calls run at once and at most `capacity` wait.
  RunQueue(std::size_t concurrency, std::size_t capacity);

  /// Waits for calls that run; cancels the others.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  /// Blocks while the queue is full.
  [[nodiscard]] std::future<Tensors> push(Call call, Tensors inputs);

  /// Runs all of `inputs` and waits; the first failure is thrown.
  [[nodiscard]] std::vector<Tensors> run_all(const Call& call, const std::vector<Tensors>& inputs);

  /// Makes what waits fail with "cancelled".
  std::size_t cancel();

  [[nodiscard]] RunStatistics statistics() const;

 private:
  struct Job {
    Call call;
    Tensors inputs;
    std::promise<Tensors> result;
  };

  void run_next();
  Tensors counted_call(const Call& call, Tensors&& inputs);

  const std::size_t capacity_;
  tbb::global_control workers_;
  tbb::task_arena arena_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::size_t tickets_ = 0;  // tasks given to TBB that have not ended
  RunStatistics counts_;
};

}  // namespace kiln::container_runtime

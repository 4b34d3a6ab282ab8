// When a version of a function is traced again, to see whether its program has changed.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "kiln/jit/options.hpp"

namespace kiln {

/// Counts the calls of one version. A trace is due at calls 2, 4, 8, …, and waits until the calls
/// since the last one took so much time that it is within the budget. Thread-safe.
///
/// Calls are not timed until a trace is due: the time of all is estimated from the few that are.
class RetraceSchedule {
 public:
  /// For a version whose trace took `trace_ms` and whose compile, that included, `compile_ms`: time
  /// that the first call spent.
  RetraceSchedule(Retrace when, double budget, double trace_ms, double compile_ms);

  /// Counts a call and says whether something is to be done about it: a trace, or a measurement.
  [[nodiscard]] bool count_call() {
    // Counts that threads lose to each other do not matter.
    const std::uint64_t calls = calls_.load(std::memory_order_relaxed) + 1;
    calls_.store(calls, std::memory_order_relaxed);
    return calls >= next_.load(std::memory_order_relaxed);
  }

  /// Whether the calls so far have paid for a trace. If not, the call is to be timed.
  [[nodiscard]] bool is_within_budget() const;
  /// Tells how long a call took, and puts off the trace until such calls have paid for it.
  void note_call(double ms);
  /// Tells how long a trace took. The next one is due at the next power of two.
  void note_trace(double ms);
  /// Has the next call traced, paid or not.
  void force_next();

 private:
  void set_next(std::uint64_t calls) { next_.store(calls, std::memory_order_relaxed); }

  const Retrace when_;
  const double budget_;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<std::uint64_t> next_;

  mutable std::mutex lock_;  // For what follows.
  double trace_ms_;          // The last trace.
  double known_ms_;          // Spent since then, beside calls that are counted.
  double call_ms_ = 0;       // One call; 0: none was timed yet.
  std::uint64_t calls_before_ = 0;
  bool forced_ = false;
};

}  // namespace kiln

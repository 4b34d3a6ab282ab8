#include "retrace_schedule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kiln {
namespace {

constexpr std::uint64_t kNoCall = std::numeric_limits<std::uint64_t>::max();

std::uint64_t first_due(Retrace when) {
  return when == Retrace::kNever ? kNoCall : 2;
}

}  // namespace

RetraceSchedule::RetraceSchedule(Retrace when, double budget, double trace_ms, double compile_ms)
    : when_(when),
      budget_(budget),
      next_(first_due(when)),
      trace_ms_(trace_ms),
      known_ms_(compile_ms) {}

bool RetraceSchedule::is_within_budget() const {
  if (when_ == Retrace::kAlways || std::isinf(budget_)) {
    return true;
  }
  const std::lock_guard guard(lock_);
  const auto calls = static_cast<double>(calls_.load(std::memory_order_relaxed) - calls_before_);
  return forced_ || trace_ms_ <= budget_ * (known_ms_ + calls * call_ms_);
}

void RetraceSchedule::note_call(double ms) {
  if (when_ != Retrace::kDoubling) {
    return;
  }
  const std::lock_guard guard(lock_);
  call_ms_ = call_ms_ == 0 ? ms : (call_ms_ + ms) / 2;
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
  // Not far ahead: calls may become slower.
  auto next = static_cast<double>(calls) * 2;
  if (call_ms_ > 0 && budget_ > 0) {
    const double needed = (trace_ms_ / budget_ - known_ms_) / call_ms_;
    next = std::min(next, static_cast<double>(calls_before_) + needed);
  }
  set_next(std::max(calls + 1, static_cast<std::uint64_t>(std::max(0.0, std::ceil(next)))));
}

void RetraceSchedule::note_trace(double ms) {
  const std::lock_guard guard(lock_);
  trace_ms_ = ms;
  known_ms_ = 0;
  forced_ = false;
  calls_before_ = calls_.load(std::memory_order_relaxed);
  if (when_ == Retrace::kDoubling) {
    set_next(std::bit_ceil(calls_before_ + 1));
  }
}

void RetraceSchedule::force_next() {
  const std::lock_guard guard(lock_);
  if (when_ != Retrace::kNever) {
    forced_ = true;
    set_next(0);
  }
}

}  // namespace kiln

// Intra-op threads, divided among the instances that run at once: kernels and libtorch alike ask
// OpenMP how many to use, and that is a setting of the calling thread.

#pragma once

#include <cstddef>

namespace kiln::container {

/// Gives the calling thread its share of the OpenMP threads for a scope.
class IntraOpThreads {
 public:
  /// `sharers` instances are running, this one included.
  explicit IntraOpThreads(std::size_t sharers) noexcept {
    if (sharers > 1) [[unlikely]] {
      divide(sharers);
    }
  }
  ~IntraOpThreads() {
    if (before_ != 0) [[unlikely]] {
      restore();
    }
  }
  IntraOpThreads(const IntraOpThreads&) = delete;
  IntraOpThreads& operator=(const IntraOpThreads&) = delete;

 private:
  void divide(std::size_t sharers) noexcept;
  void restore() noexcept;

  int before_ = 0;  // 0: nothing was changed
};

}  // namespace kiln::container

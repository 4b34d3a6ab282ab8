// The sizes at which a version for a range has been compared with its function.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

namespace kiln {

/// The calls of a version, told apart by the sizes of their inputs, for which a trace was compared
/// with what was compiled. Integers among the arguments are sizes too, and are not looked at alone:
/// what a function does with one may depend on a size beside it (`step == x.size(0) - 1`).
/// Thread-safe.
class VisitedSizes {
 public:
  enum class Result { kUnknown, kSame, kDifferent };

  [[nodiscard]] Result find(const std::vector<at::Tensor>& inputs) const {
    const std::vector<std::int64_t> key = key_of(inputs);
    const std::shared_lock lock(mutex_);
    const auto found = is_same_.find(key);
    return found == is_same_.end() ? Result::kUnknown
           : found->second         ? Result::kSame
                                   : Result::kDifferent;
  }

  void add(const std::vector<at::Tensor>& inputs, bool is_same) {
    constexpr std::size_t kMost = 1 << 16;  // A step counter has a new value in each call.
    const std::unique_lock lock(mutex_);
    if (is_same_.size() >= kMost) {
      is_same_.clear();  // They are compared again, should they come again.
    }
    is_same_[key_of(inputs)] = is_same;
  }

 private:
  static std::vector<std::int64_t> key_of(const std::vector<at::Tensor>& inputs) {
    std::vector<std::int64_t> key;
    for (const at::Tensor& input : inputs) {
      if (input.defined()) {
        key.insert(key.end(), input.sizes().begin(), input.sizes().end());
      }
    }
    return key;
  }

  mutable std::shared_mutex mutex_;
  std::map<std::vector<std::int64_t>, bool> is_same_;
};

}  // namespace kiln

// The sizes at which a version for a range has been compared with its function.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

namespace kiln {

/// The results of comparing a version with traces of its function, by the integer arguments or by
/// all sizes of a call. Thread-safe.
class VisitedSizes {
 public:
  enum class Result { kUnknown, kSame, kDifferent };

  /// The key of a call is the sizes of its inputs. If `integers` is not zero, it is that many
  /// integers, which are the last sizes of the last inputs.
  explicit VisitedSizes(std::size_t integers) : integers_(integers) {}

  [[nodiscard]] Result find(const std::vector<at::Tensor>& inputs) const {
    const std::vector<std::int64_t> key = key_of(inputs);
    const std::shared_lock lock(mutex_);
    const auto found = is_same_.find(key);
    return found == is_same_.end() ? Result::kUnknown
           : found->second         ? Result::kSame
                                   : Result::kDifferent;
  }

  void add(const std::vector<at::Tensor>& inputs, bool is_same) {
    constexpr std::size_t kMost = 1 << 16;  // Beyond that, calls are compared each time.
    const std::unique_lock lock(mutex_);
    if (is_same_.size() < kMost) {
      is_same_[key_of(inputs)] = is_same;
    }
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> key_of(const std::vector<at::Tensor>& inputs) const {
    std::vector<std::int64_t> key;
    if (integers_ != 0) {
      key.reserve(integers_);
      for (std::size_t i = inputs.size() - integers_; i < inputs.size(); ++i) {
        key.push_back(inputs[i].sizes().back());
      }
      return key;
    }
    for (const at::Tensor& input : inputs) {
      if (input.defined()) {
        key.insert(key.end(), input.sizes().begin(), input.sizes().end());
      }
    }
    return key;
  }

  const std::size_t integers_;
  mutable std::shared_mutex mutex_;
  std::map<std::vector<std::int64_t>, bool> is_same_;
};

}  // namespace kiln

#include "initialization.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "value_table.hpp"

namespace kiln::capture {
namespace {

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// In-place operators that do not look at what they replace. Those with an index replace only some
// of it; which, depends on data. Programs write memory part by part that way, so all of it counts.
constexpr std::array<std::string_view, 19> kOverwriting = {"_index_put_impl_",
                                                           "bernoulli_",
                                                           "cauchy_",
                                                           "copy_",
                                                           "exponential_",
                                                           "fill_",
                                                           "geometric_",
                                                           "index_copy_",
                                                           "index_fill_",
                                                           "index_put_",
                                                           "log_normal_",
                                                           "masked_fill_",
                                                           "masked_scatter_",
                                                           "normal_",
                                                           "put_",
                                                           "random_",
                                                           "scatter_",
                                                           "uniform_",
                                                           "zero_"};

constexpr std::array<std::string_view, 9> kUninitialized = {"empty",
                                                            "empty_like",
                                                            "empty_permuted",
                                                            "empty_quantized",
                                                            "empty_strided",
                                                            "new_empty",
                                                            "new_empty_strided",
                                                            "_empty_affine_quantized",
                                                            "_empty_per_channel_affine_quantized"};

// Calls `visit(first, last)` with the bytes of each contiguous run of elements.
template <class Visit>
void for_each_run(const at::Tensor& tensor, Visit&& visit) {
  if (tensor.numel() == 0) {
    return;
  }
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  std::vector<std::pair<std::int64_t, std::int64_t>> loops;  // Stride and size, outermost first.
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) {
      loops.emplace_back(tensor.stride(i), tensor.size(i));
    }
  }
  std::sort(loops.begin(), loops.end(), std::greater<>());
  std::int64_t run = 1;
  while (!loops.empty() && loops.back().first == run) {
    run *= loops.back().second;
    loops.pop_back();
  }
  std::vector<std::int64_t> position(loops.size(), 0);
  std::int64_t offset = tensor.storage_offset();
  while (true) {
    visit(static_cast<std::size_t>(offset * item), static_cast<std::size_t>((offset + run) * item));
    std::size_t loop = loops.size();
    while (loop-- > 0) {
      offset += loops[loop].first;
      if (++position[loop] < loops[loop].second) {
        break;
      }
      offset -= loops[loop].first * loops[loop].second;
      position[loop] = 0;
    }
    if (loop == static_cast<std::size_t>(-1)) {
      return;
    }
  }
}

}  // namespace

ElementAccess element_access(const OperatorFacts& facts, std::uint32_t position) {
  const bool written =
      std::find(facts.mutates.begin(), facts.mutates.end(), position) != facts.mutates.end();
  if (facts.in_place_view || facts.takes_metadata_only || (facts.is_view && !written)) {
    return ElementAccess::kNone;
  }
  const bool is_noise = facts.name.starts_with("rrelu_with_noise") && position == 1;
  if (written && (facts.has_out || is_noise || is_one_of(facts.name, kOverwriting))) {
    return ElementAccess::kOverwrite;
  }
  return ElementAccess::kRead;
}

bool allocates_uninitialized(const OperatorFacts& facts) {
  return facts.target.starts_with("aten.") && !facts.has_out &&
         is_one_of(facts.name, kUninitialized);
}

void InitializationTracker::note_allocation(const at::Tensor& tensor, Allocation allocation) {
  if (memory_of(tensor) != nullptr && tensor.storage().nbytes() != 0) {
    shadows_[memory_of(tensor)] = {.allocation = std::move(allocation)};
  }
}

void InitializationTracker::note_growth(const at::Tensor& tensor,
                                        std::size_t bytes,
                                        Allocation allocation) {
  const auto [entry, fresh] = shadows_.try_emplace(memory_of(tensor));
  Shadow& shadow = entry->second;
  if (fresh) {
    shadow.allocation = std::move(allocation);
    shadow.written.assign(bytes, true);
    shadow.written_bytes = bytes;
  }
}

void InitializationTracker::note_write(const at::Tensor& tensor) {
  const auto entry = shadows_.find(memory_of(tensor));
  if (entry == shadows_.end()) {
    return;
  }
  Shadow& shadow = entry->second;
  const std::size_t bytes = tensor.storage().nbytes();
  if (tensor.is_non_overlapping_and_dense() && tensor.nbytes() == bytes) {
    shadows_.erase(entry);
    return;
  }
  shadow.written.resize(bytes, false);
  for_each_run(tensor, [&](std::size_t first, std::size_t last) {
    const auto begin = shadow.written.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = shadow.written.begin() + static_cast<std::ptrdiff_t>(std::min(last, bytes));
    shadow.written_bytes += static_cast<std::size_t>(std::count(begin, end, false));
    std::fill(begin, end, true);
  });
  if (shadow.written_bytes == bytes) {
    shadows_.erase(entry);
  }
}

const Allocation* InitializationTracker::find_uninitialized(const at::Tensor& tensor) const {
  const auto entry = shadows_.find(memory_of(tensor));
  if (entry == shadows_.end()) {
    return nullptr;
  }
  const std::vector<bool>& written = entry->second.written;
  bool initialized = true;
  for_each_run(tensor, [&](std::size_t first, std::size_t last) {
    initialized = initialized && last <= written.size() &&
                  std::find(written.begin() + static_cast<std::ptrdiff_t>(first),
                            written.begin() + static_cast<std::ptrdiff_t>(last),
                            false) == written.begin() + static_cast<std::ptrdiff_t>(last);
  });
  return initialized ? nullptr : &entry->second.allocation;
}

}  // namespace kiln::capture

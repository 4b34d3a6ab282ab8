#include "memory_overlap.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace kiln::autograd_dispatch {
namespace {

// Something that may be added between 0 and `count` times.
struct Step {
  std::int64_t size;
  std::int64_t count;
};

bool is_empty(const Geometry& geometry) {
  return std::any_of(
      geometry.sizes.begin(), geometry.sizes.end(), [](std::int64_t size) { return size == 0; });
}

void add_steps(std::vector<Step>& steps, const Geometry& geometry, std::int64_t unit) {
  for (std::size_t i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] > 1 && geometry.strides[i] != 0) {
      steps.push_back({geometry.strides[i] * unit, geometry.sizes[i] - 1});
    }
  }
}

std::int64_t reach_of(const std::vector<Step>& steps) {
  std::int64_t reach = 0;
  for (const Step& step : steps) {
    reach += step.size * step.count;
  }
  return reach;
}

// Whether `target` is a sum of steps. They come in order of falling size, so that usually only one
// or two counts of the first leave a rest that the others can reach.
bool can_reach(std::int64_t target, std::span<const Step> steps) {
  if (target == 0) {
    return true;
  }
  if (target < 0 || steps.empty()) {
    return false;
  }
  std::int64_t rest = 0;
  std::int64_t divisor = 0;
  for (const Step& step : steps.subspan(1)) {
    rest += step.size * step.count;
    divisor = std::gcd(divisor, step.size);
  }
  if (target % std::gcd(divisor, steps[0].size) != 0) {
    return false;
  }
  const std::int64_t size = steps[0].size;
  const std::int64_t low = std::max<std::int64_t>(0, (target - rest + size - 1) / size);
  const std::int64_t high = std::min(steps[0].count, target / size);
  for (std::int64_t count = low; count <= high; ++count) {
    if (can_reach(target - count * size, steps.subspan(1))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool overlap(const Geometry& a, std::int64_t a_bytes, const Geometry& b, std::int64_t b_bytes) {
  if (is_empty(a) || is_empty(b)) {
    return false;
  }
  // An element of a is an element of b where offset_a + Σ strides_a·i == offset_b + Σ strides_b·j.
  // Counting j from the other end turns this into one sum of positive steps.
  const bool alike = a_bytes == b_bytes;
  const std::int64_t a_unit = alike ? 1 : a_bytes;
  const std::int64_t b_unit = alike ? 1 : b_bytes;
  std::vector<Step> a_steps, b_steps;
  add_steps(a_steps, a, a_unit);
  add_steps(b_steps, b, b_unit);
  if (!alike) {
    a_steps.push_back({1, a_bytes - 1});
    b_steps.push_back({1, b_bytes - 1});
  }
  const std::int64_t target = b.offset * b_unit + reach_of(b_steps) - a.offset * a_unit;
  std::vector<Step> steps = std::move(a_steps);
  steps.insert(steps.end(), b_steps.begin(), b_steps.end());
  std::sort(steps.begin(), steps.end(), [](const Step& left, const Step& right) {
    return left.size > right.size;
  });
  return can_reach(target, steps);
}

}  // namespace kiln::autograd_dispatch

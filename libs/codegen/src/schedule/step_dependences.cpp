#include "schedule/step_dependences.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "kiln/base/error.hpp"

namespace kiln::codegen {

int StepDependences::add() {
  needs_.emplace_back();
  return static_cast<int>(needs_.size() - 1);
}

bool StepDependences::depends(int from, int to) const {
  std::vector<int> stack{from};
  std::vector<bool> seen(needs_.size());
  while (!stack.empty()) {
    const int step = stack.back();
    stack.pop_back();
    if (step == to) {
      return true;
    }
    if (seen[index(step)]) {
      continue;
    }
    seen[index(step)] = true;
    stack.insert(stack.end(), needs(step).begin(), needs(step).end());
  }
  return false;
}

bool StepDependences::depends_indirectly(int step, int other) const {
  return std::ranges::any_of(needs(step),
                             [&](int needed) { return needed != other && depends(needed, other); });
}

void StepDependences::merge(int earlier, int later) {
  for (std::set<int>& needs : needs_) {
    if (needs.erase(later) > 0) {
      needs.insert(earlier);
    }
  }
  std::set<int>& merged = needs_[index(earlier)];
  merged.merge(needs_[index(later)]);
  merged.erase(earlier);
  needs_[index(later)].clear();
}

std::vector<int> StepDependences::order() const {
  std::vector<int> result;
  std::vector<std::size_t> missing(needs_.size());
  std::vector<std::vector<int>> users(needs_.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < needs_.size(); ++i) {
    const int step = static_cast<int>(i);
    missing[i] = needs_[i].size();
    for (const int needed : needs_[i]) {
      users[index(needed)].push_back(step);
    }
    if (missing[i] == 0) {
      ready.push(step);
    }
  }
  while (!ready.empty()) {
    const int step = ready.top();
    ready.pop();
    result.push_back(step);
    for (const int user : users[index(step)]) {
      if (--missing[index(user)] == 0) {
        ready.push(user);
      }
    }
  }
  ensure(result.size() == needs_.size(), "fusion made a cycle");
  return result;
}

}  // namespace kiln::codegen

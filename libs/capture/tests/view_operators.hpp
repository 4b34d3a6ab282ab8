// What the steps of a random program may do: every kind of view, in-place forms, mutations.

#pragma once

#include <algorithm>
#include <vector>

#include "view_program.hpp"

namespace kiln::capture {

/// What a step has to work with.
struct Context {
  Tensors& pool;
  const Step& step;

  [[nodiscard]] unsigned number(std::size_t i) const { return step.numbers[i]; }
  /// The tensor the step is about: rather a late one than an early one.
  [[nodiscard]] torch::Tensor& self() const {
    const std::size_t recent = std::min<std::size_t>(pool.size(), 6);
    return pool[pool.size() - 1 - number(0) % recent];
  }
  [[nodiscard]] torch::Tensor& other() const { return pool[number(1) % pool.size()]; }
  [[nodiscard]] std::int64_t dim(std::size_t i = 2) const {
    return self().dim() == 0 ? 0 : number(i) % self().dim();
  }
  [[nodiscard]] std::int64_t below(std::size_t i, std::int64_t end) const {
    return end <= 0 ? 0 : number(i) % end;
  }
};

/// What a step does with its tensors; false where it means nothing.
using Action = bool (*)(const Context&);

struct Operator {
  const char* name;
  Action action;
};

[[nodiscard]] const std::vector<Operator>& operators();

}  // namespace kiln::capture

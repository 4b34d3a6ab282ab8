#include "view_program.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "view_operators.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

bool apply(const Step& step, Tensors* pool) {
  return operators()[step.op % operators().size()].action({*pool, step});
}

constexpr unsigned kArgumentSets = 9;
constexpr std::size_t kMostTensors = 24;
constexpr std::int64_t kMostElements = 512;

/// The first step that eager refuses or that means nothing, or one past the last.
std::size_t first_refused(const Program& program) {
  Tensors pool = make_arguments(program);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    try {
      if (!apply(program.steps[i], &pool) || pool.size() > kMostTensors ||
          pool.back().numel() > kMostElements) {
        return i;
      }
    } catch (const c10::Error&) {
      return i;
    }
  }
  return program.steps.size();
}

Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype) {
  const std::int64_t count = c10::multiply_integers(sizes);
  const Tensor counted = torch::arange(count, torch::kDouble).sub(3).view(sizes);
  return at::isComplexType(dtype) ? torch::complex(counted, counted + 1).to(dtype)
                                  : counted.to(dtype);
}

}  // namespace

Tensors make_arguments(const Program& program) {
  const Tensor base = numbers({4, 6}, at::kFloat);
  switch (program.arguments) {
    case 0: return {base, numbers({6}, at::kFloat)};
    case 1: return {base, base.t()};
    case 2: return {base.slice(0, 0, 3), base.slice(0, 2, 4)};
    case 3: return {numbers({3, 4}, at::kComplexFloat), numbers({3, 4, 2}, at::kFloat)};
    case 4: return {numbers({2, 4, 3}, at::kFloat).permute({0, 2, 1}), numbers({4}, at::kLong)};
    case 5: return {numbers({4, 6}, at::kDouble).slice(1, 0, 6, 2), numbers({}, at::kFloat)};
    case 6: return {numbers({8}, at::kInt), numbers({2, 1, 4}, at::kFloat)};
    case 7: return {numbers({0, 3}, at::kFloat), numbers({4}, at::kFloat)};
    default: return {base.select(1, 2), base.select(1, 3), numbers({4, 1}, at::kBool)};
  }
}

Program random_program(unsigned seed, unsigned steps) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return static_cast<unsigned>(random() % end); };
  Program program{below(kArgumentSets), {}};
  for (unsigned i = 0; i < steps; ++i) {
    Step step{below(operators().size()), {}};
    for (unsigned& number : step.numbers) {
      number = below(64);
    }
    program.steps.push_back(step);
  }
  for (std::size_t bad; (bad = first_refused(program)) < program.steps.size();) {
    program.steps.erase(program.steps.begin() + static_cast<std::ptrdiff_t>(bad));
  }
  return program;
}

Tensors run(const Program& program, const Tensors& arguments) {
  Tensors pool = arguments;
  for (const Step& step : program.steps) {
    if (!apply(step, &pool)) {
      throw std::invalid_argument("a step of the program means nothing");
    }
  }
  const std::size_t kept = std::min<std::size_t>(pool.size(), 4);
  return {pool.end() - static_cast<std::ptrdiff_t>(kept), pool.end()};
}

std::string describe(const Program& program) {
  std::string text = "arguments " + std::to_string(program.arguments) + "\n";
  for (const Step& step : program.steps) {
    text += operators()[step.op % operators().size()].name;
    for (const unsigned number : step.numbers) {
      text += " " + std::to_string(number);
    }
    text += "\n";
  }
  return text;
}

}  // namespace kiln::capture

#include "random_program.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "random_steps.hpp"
#include "tested_device.hpp"

namespace kiln::differential {
namespace {

constexpr std::int64_t kMostElements = 1 << 13;

bool is_moderate(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() > 4 * kMostElements) {
    return false;
  }
  if (tensor.numel() == 0 || !at::isFloatingType(tensor.scalar_type())) {
    return true;
  }
  const double largest = tensor.abs().max().item<double>();
  return largest < 100;
}

// How often each tensor whose elements repeat was written: graphs refuse it, through any view.
std::vector<std::int64_t> versions_of_expanded(const Tensors& tensors) {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& tensor : tensors) {
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
        versions.push_back(tensor._version());
      }
    }
  }
  return versions;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) { program_.seed = seed; }

  RandomProgram run() {
    add_inputs();
    const std::size_t length = 4 + below(12);
    for (std::size_t tries = 0; program_.steps.size() < length && tries < 20 * length; ++tries) {
      try_step();
    }
    choose_outputs();
    return std::move(program_);
  }

 private:
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }

  void add_inputs() {
    // Doubles show mistakes that the rounding of floats would hide.
    const at::ScalarType dtype = below(4) == 0 ? at::kFloat : at::kDouble;
    const std::vector<std::int64_t> sizes =
        below(12) == 0
            ? std::vector<std::int64_t>{40, 3, 64}
            : std::vector<std::int64_t>{pick({2, 3, 5}), pick({1, 4, 7}), pick({8, 5, 17})};
    const std::vector<std::vector<std::int64_t>> choices = {
        sizes, {sizes[1], sizes[2]}, {sizes[2]}, {sizes[0], 1, sizes[2]}, sizes, {}};
    const std::size_t count = 2 + below(3);
    Draw draw({.layout = below(6), .seed = random_()});
    for (std::size_t i = 0; i < count; ++i) {
      draw.of(choices[below(choices.size())], dtype, Values::kFinite);
    }
    draw.integers({3}, 0, 2);
    draw.of(choices[below(choices.size())], at::kBool, Values::kFinite);
    program_.inputs = draw.made();
    for (const at::Tensor& input : program_.inputs) {
      values_.push_back(input);
    }
  }

  std::int64_t pick(const std::array<std::int64_t, 3>& from) { return from[below(3)]; }

  // Later values more often than earlier ones, so that chains get long.
  std::size_t pick_value() {
    const std::size_t size = values_.size();
    return below(2) == 0 ? below(size) : size - 1 - below(std::min<std::size_t>(3, size));
  }

  void try_step() {
    Step step{below(step_count()), {}, random_()};
    for (std::size_t i = 0; i < 3; ++i) {
      step.operands.push_back(pick_value());
    }
    // In-place steps change earlier values: on copies, until it is known that it works.
    RandomProgram longer = program_;
    longer.steps.push_back(step);
    try {
      const Tensors inputs = copies(program_.inputs);
      const std::vector<std::int64_t> versions = versions_of_expanded(inputs);
      Tensors all = run_steps(longer.steps, inputs);
      if (std::ranges::all_of(all, is_moderate) && versions_of_expanded(inputs) == versions) {
        program_.narrow = std::ranges::any_of(
            all, [](const at::Tensor& value) { return value.scalar_type() == at::kFloat; });
        values_ = std::move(all);
        program_.steps = std::move(longer.steps);
      }
    } catch (const std::exception&) {
      // Eager refuses it: another step.
    }
  }

  void choose_outputs() {
    std::vector<bool> used(values_.size());
    for (const Step& step : program_.steps) {
      for (const std::size_t operand : step.operands) {
        used[operand] = true;
      }
    }
    for (std::size_t i = program_.inputs.size(); i < values_.size(); ++i) {
      if (!used[i] || below(6) == 0) {
        program_.outputs.push_back(i);
      }
    }
  }

  RandomProgram program_;
  Tensors values_;
  std::mt19937_64 random_;
};

// Without step `index`: what used its result uses its first operand instead.
RandomProgram without_step(const RandomProgram& program, std::size_t index) {
  RandomProgram result = program;
  const std::size_t value = program.inputs.size() + index;
  const std::size_t instead = program.steps[index].operands[0];
  result.steps.erase(result.steps.begin() + static_cast<std::ptrdiff_t>(index));
  const auto renumbered = [&](std::size_t id) {
    return id == value ? instead : id > value ? id - 1 : id;
  };
  for (Step& step : result.steps) {
    std::ranges::transform(step.operands, step.operands.begin(), renumbered);
  }
  std::ranges::transform(result.outputs, result.outputs.begin(), renumbered);
  return result;
}

}  // namespace

Tensors RandomProgram::operator()(const Tensors& tensors) const {
  const Tensors values = run_steps(steps, tensors);
  Tensors result;
  for (const std::size_t output : outputs) {
    result.push_back(values.at(output));
  }
  return result;
}

RandomProgram random_program(std::uint64_t seed) {
  return Generator(seed).run();
}

std::vector<RandomProgram> smaller(const RandomProgram& program) {
  std::vector<RandomProgram> result;
  if (program.outputs.size() > 1) {
    for (const std::size_t output : program.outputs) {
      result.push_back(program);
      result.back().outputs = {output};
    }
  }
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    result.push_back(without_step(program, i));
  }
  return result;
}

}  // namespace kiln::differential

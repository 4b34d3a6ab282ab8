// Every lowering against ATen: shapes, layouts, types and values that kernels get wrong.
//
// Each line of the table is run with each of its types; shapes, layouts and further arguments
// follow from the line's number and the round. Many cases make one library, because most of a
// compile's cost is there once. KILN_SWEEP_ROUNDS=N runs N rounds, each with other draws;
// KILN_TEST_GPU=1 compares kernels for a GPU with ATen there.

#include <torch/torch.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "compiled.hpp"
#include "kiln/testing/catch2.hpp"
#include "lower/lowering.hpp"
#include "operators.hpp"
#include "tested_device.hpp"

namespace kiln::differential {
namespace {

// One call of one line: its arguments, and what eager makes of them.
struct Case {
  const Line* line;
  Profile profile;
  Tensors inputs;
  Tensors expected;

  [[nodiscard]] std::string description() const {
    std::ostringstream text;
    text << line->target << " " << profile.dtype << " seed " << profile.seed << ":";
    for (const at::Tensor& input : inputs) {
      text << " " << input.scalar_type() << input.sizes() << "{" << input.strides() << "}";
    }
    return text.str();
  }
};

using Cases = std::span<const Case>;

std::vector<Line> all_lines() {
  std::vector<Line> lines = pointwise_lines();
  for (const std::vector<Line>& more :
       {moving_lines(), reducing_lines(), product_lines(), sequence_lines(), list_lines()}) {
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

// What eager refuses is not a case.
std::optional<Case> make_case(const Line& line, const Profile& profile) {
  Draw draw(profile);
  try {
    Tensors expected = line.run(draw);
    if (tested_device().is_cpu()) {
      return Case{&line, profile, draw.made(), std::move(expected)};
    }
    Tensors inputs = copies(draw.made(), tested_device());
    Draw again(profile, &inputs);
    expected = line.run(again);
    // Lines that make a tensor of nothing make it on the CPU.
    const bool is_there = std::ranges::all_of(
        expected, [](const at::Tensor& tensor) { return !tensor.defined() || tensor.is_cuda(); });
    return is_there ? std::optional(Case{&line, profile, std::move(inputs), std::move(expected)})
                    : std::nullopt;
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

std::vector<Case> make_cases(const std::vector<Line>& lines, std::uint64_t round) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::vector<at::ScalarType> types = types_of(lines[i].types);
    for (std::size_t t = 0; t < types.size(); ++t) {
      const std::uint64_t number = round * types.size() + t;
      const Profile profile{.dtype = types[t],
                            .shape = (i * 5 + number * 3) % shapes().size(),
                            .layout = i + number,
                            .mixed = number % 3 == 2,
                            .seed = (round * 1000 + i) * 100 + t};
      if (std::optional<Case> made = make_case(lines[i], profile)) {
        cases.push_back(std::move(*made));
      }
    }
  }
  return cases;
}

Tensors inputs_of(Cases cases) {
  Tensors inputs;
  for (const Case& each : cases) {
    inputs.insert(inputs.end(), each.inputs.begin(), each.inputs.end());
  }
  return inputs;
}

ir::Graph graph_of(Cases cases) {
  return traced(
      [&](const Tensors& inputs) {
        Tensors outputs;
        auto next = inputs.begin();
        for (const Case& each : cases) {
          const auto end = next + static_cast<std::ptrdiff_t>(each.inputs.size());
          const Tensors own(next, end);
          Draw draw(each.profile, &own);
          const Tensors results = each.line->run(draw);
          outputs.insert(outputs.end(), results.begin(), results.end());
          next = end;
        }
        return outputs;
      },
      inputs_of(cases));
}

// Runs the cases as one library. Where that fails as a whole, the guilty are found by halving.
void sweep(Cases cases, std::vector<std::string>& failures, std::set<std::string>& kernels) {
  Tensors found;
  try {
    const ir::Graph graph = graph_of(cases);
    const codegen::LoopProgram program = codegen::lower(graph);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      if (!program.extern_at[i]) {
        kernels.insert(graph.nodes()[i].target);
      }
    }
    found = run_compiled(graph, inputs_of(cases));
  } catch (const std::exception& error) {
    if (cases.size() == 1) {
      failures.push_back(cases[0].description() + "\n    " + error.what());
      return;
    }
    sweep(cases.first(cases.size() / 2), failures, kernels);
    sweep(cases.subspan(cases.size() / 2), failures, kernels);
    return;
  }
  std::size_t next = 0;
  for (const Case& each : cases) {
    for (std::size_t i = 0; i < each.expected.size(); ++i, ++next) {
      if (const auto what = difference(each.expected[i], found.at(next), each.line->closeness)) {
        failures.push_back(each.description() + "\n    result " + std::to_string(i) + ": " + *what);
      }
    }
  }
}

int rounds() {
  const char* number = std::getenv("KILN_SWEEP_ROUNDS");
  return number != nullptr ? std::max(1, std::atoi(number)) : 1;
}

TEST_CASE("every lowering computes what ATen does", "[differential][operator_sweep]") {
  constexpr std::size_t kBatch = 128;
  const std::vector<Line> lines = all_lines();
  std::vector<std::string> failures;
  std::set<std::string> kernels;
  std::size_t count = 0;

  for (int round = 0; round < rounds(); ++round) {
    const std::vector<Case> cases = make_cases(lines, static_cast<std::uint64_t>(round));
    count += cases.size();
    for (std::size_t i = 0; i < cases.size(); i += kBatch) {
      sweep(Cases(cases).subspan(i, std::min(kBatch, cases.size() - i)), failures, kernels);
    }
  }

  for (const std::string& failure : failures) {
    UNSCOPED_INFO(failure);
  }
  CHECK(failures.size() == 0);
  // The table is complete: no lowering that it does not show.
  for (const std::string& target : codegen::lowered_targets()) {
    CAPTURE(target);
    CHECK((tested_device().is_cuda() || kernels.contains(target)));
  }
  CHECK(count > 900);
}

}  // namespace
}  // namespace kiln::differential

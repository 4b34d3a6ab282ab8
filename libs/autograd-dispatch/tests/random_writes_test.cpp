// Random programs that write, through views, what they train through, against eager. An error may
// come only where eager has one.
//
// KILN_WRITES_PROGRAMS=N runs N programs, KILN_WRITES_FIRST=S begins at seed S.

#include <torch/torch.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/partitioner/partition.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::autograd_dispatch {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t end) {
  return static_cast<std::size_t>(random() % end);
}

struct Operation {
  const char* name;
  torch::Tensor (*apply)(torch::Tensor a, const torch::Tensor& b, Random& random);
};

torch::Tensor part(const torch::Tensor& a, Random& random) {
  TORCH_CHECK(a.dim() > 0 && a.size(0) > 1);
  const auto size = static_cast<std::size_t>(a.size(0));
  const std::size_t begin = below(random, size - 1);
  const std::size_t length = 1 + below(random, size - begin);
  return a.slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + length));
}

const Operation kOperations[] = {
    {"exp", [](auto a, auto&, auto&) { return (a * 0.25).exp(); }},
    {"sin", [](auto a, auto&, auto&) { return a.sin(); }},
    {"sigmoid", [](auto a, auto&, auto&) { return a.sigmoid(); }},
    {"mul", [](auto a, auto& b, auto&) { return a * b; }},
    {"add", [](auto a, auto& b, auto&) { return a + b; }},
    {"scale", [](auto a, auto&, auto&) { return a * 0.5; }},
    {"sum", [](auto a, auto&, auto&) { return a.sum(); }},
    {"part", [](auto a, auto&, auto& random) { return part(a, random); }},
    {"select", [](auto a, auto&, auto&) { return a.select(0, 0); }},
    {"flat", [](auto a, auto&, auto&) { return a.view({-1}); }},
    {"pairs", [](auto a, auto&, auto&) { return a.view({-1, 2}); }},
    {"transposed", [](auto a, auto&, auto&) { return a.t(); }},
    {"expanded", [](auto a, auto&, auto&) { return a.unsqueeze(0).expand({2, -1}); }},
    {"detach", [](auto a, auto&, auto&) { return a.detach(); }},
    {"mul_", [](auto a, auto&, auto&) { return a.mul_(0.5); }},
    {"mul_ by", [](auto a, auto& b, auto&) { return a.mul_(b); }},
    {"add_", [](auto a, auto& b, auto&) { return a.add_(b); }},
    {"copy_", [](auto a, auto& b, auto&) { return a.copy_(b); }},
    {"zero_", [](auto a, auto&, auto&) { return a.zero_(); }},
    {"sigmoid_", [](auto a, auto&, auto&) { return a.sigmoid_(); }},
    {"part mul_", [](auto a, auto&, auto& random) { return part(a, random).mul_(0.5); }},
    {"part add_", [](auto a, auto& b, auto& random) { return part(a, random).add_(b); }},
    {"part copy_", [](auto a, auto& b, auto& random) { return part(a, random).copy_(b); }},
    {"part tanh_", [](auto a, auto&, auto& random) { return part(a, random).tanh_(); }},
};

struct WritingStep {
  std::size_t operation, a, b;
  std::uint64_t seed;
};

struct WritingProgram {
  std::vector<std::uint64_t> views;  // Of one tensor of eight elements, one for each argument.
  std::vector<WritingStep> steps;
  std::vector<std::size_t> outputs;

  [[nodiscard]] testing::Inputs inputs(bool requires_grad) const {
    const torch::Tensor leaf = torch::randn({8}, torch::requires_grad(requires_grad));
    const torch::Tensor other = torch::randn({8}, torch::requires_grad(requires_grad));
    const torch::Tensor base = leaf * 1;
    Tensors arguments;
    for (const std::uint64_t seed : views) {
      Random random(seed);
      switch (below(random, 5)) {
        case 0: arguments.push_back(base); break;
        case 1: arguments.push_back(other * 1); break;
        case 2: arguments.push_back(base.view({2, 4})); break;
        default: arguments.push_back(part(base, random)); break;
      }
    }
    return {{leaf, other}, arguments};
  }

  [[nodiscard]] Tensors values(const Tensors& arguments) const {
    Tensors all = arguments;
    for (const WritingStep& step : steps) {
      Random random(step.seed);
      const torch::Tensor a = all.at(step.a), b = all.at(step.b);
      all.push_back(kOperations[step.operation].apply(a, b, random));
    }
    return all;
  }

  Tensors operator()(const Tensors& arguments) const {
    const Tensors all = values(arguments);
    Tensors returned;
    for (const std::size_t output : outputs) {
      returned.push_back(all.at(output));
    }
    return returned;
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    const testing::Inputs made = inputs(true);
    for (std::size_t i = 0; i < views.size(); ++i) {
      text << "  %" << i << " = argument " << made.arguments[i].sizes() << " at "
           << made.arguments[i].storage_offset() << '\n';
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      text << "  %" << views.size() + i << " = " << kOperations[steps[i].operation].name << " %"
           << steps[i].a << ", %" << steps[i].b << '\n';
    }
    text << "  return";
    for (const std::size_t output : outputs) {
      text << " %" << output;
    }
    return text.str();
  }
};

// Whether eager runs it, forward and backward through each of its results and arguments.
bool runs(const WritingProgram& program) {
  return !testing::detail::error_of([&] {
    const testing::Inputs inputs = program.inputs(true);
    Tensors all = program(inputs.arguments);
    all.insert(all.end(), inputs.arguments.begin(), inputs.arguments.end());
    for (const torch::Tensor& value : all) {
      if (value.requires_grad()) {
        value.sum().backward({}, /*retain_graph=*/true);
      }
    }
  });
}

WritingProgram random_writes(std::uint64_t seed) {
  Random random(seed);
  WritingProgram program;
  for (std::size_t i = 1 + below(random, 3); i > 0; --i) {
    program.views.push_back(random());
  }
  const std::size_t length = 3 + below(random, 6);
  for (std::size_t tries = 0; program.steps.size() < length && tries < 200; ++tries) {
    WritingProgram longer = program;
    const std::size_t values = program.views.size() + program.steps.size();
    longer.steps.push_back({below(random, std::size(kOperations)),
                            below(random, values),
                            below(random, values),
                            random()});
    if (below(random, 2) == 0) {
      longer.outputs.push_back(values);
    }
    if (runs(longer)) {
      program = std::move(longer);
    }
  }
  return program;
}

std::size_t number(const char* name, std::size_t absent) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<std::size_t>(std::atoll(text)) : absent;
}

// What such programs do and what is refused. `y.mul_(y)` leaves a tensor that autograd itself keeps
// alive for good: y's node has saved y.
bool is_refused(const WritingProgram& program) {
  const auto error = testing::detail::error_of(
      [&] { (void)trace_joint(program, program.inputs(true).arguments); });
  return error && (error->find("views of a detached tensor that is not returned") != error->npos ||
                   error->find("the function keeps the result of aten") != error->npos);
}

// Traced at each call, with writes in the graph or outside, and run by the interpreter.
TensorFunction interpreted(const TensorFunction& function, bool keep_mutations_in_graph) {
  return [=](const Tensors& arguments) {
    JointTrace trace =
        trace_joint(function, arguments, {.keep_mutations_in_graph = keep_mutations_in_graph});
    const auto partition = [=](const ir::Graph& joint) {
      partitioner::Partition parts = keep_mutations_in_graph
                                         ? partitioner::min_cut_partition(joint)
                                         : partitioner::default_partition(joint);
      return std::pair(std::move(parts.forward), std::move(parts.backward));
    };
    return dispatch(std::move(trace), {.partition = partition})(arguments);
  };
}

TEST_CASE("random programs that write what they train through are like eager",
          "[autograd-dispatch][writes]") {
  const std::size_t first = number("KILN_WRITES_FIRST", 1);
  const std::size_t count = number("KILN_WRITES_PROGRAMS", 500);
  std::size_t refused = 0;
  for (std::size_t seed = first; seed < first + count; ++seed) {
    const WritingProgram program = random_writes(seed);
    INFO("seed " << seed << "\n" << program.text());
    if (is_refused(program)) {
      ++refused;
      continue;
    }
    const auto inputs = [&] { return program.inputs(true); };
    testing::check_like_eager(program, interpreted(program, true), inputs);
    testing::check_like_eager(program, interpreted(program, false), inputs);
  }
  CHECK(refused <= 1 + count / 50);
}

}  // namespace
}  // namespace kiln::autograd_dispatch

#include "sampled_program.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/generalize.hpp"
#include "kiln/ir/identity_views.hpp"
#include "kiln/ir/specialize.hpp"
#include "resize_input.hpp"
#include "size_text.hpp"

namespace kiln::exporter {
namespace {

// Of one input, unless the example is larger.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 22;
// Of one value of a program that is run.
constexpr std::int64_t kMaxComputedElements = std::int64_t{1} << 28;
constexpr std::uint64_t kSeed = 1;

// Whether all that is different is that one has views that show a tensor as it is at these sizes.
bool differs_in_views_alone(const ir::Graph& graph,
                            const ir::Bindings& sizes,
                            const ir::Graph& trace) {
  return !ir::find_difference(
      ir::drop_identity_views(ir::specialize(graph, sizes)), {}, ir::drop_identity_views(trace));
}

// Whether each value that `graph` computes fits in memory. That of small inputs may not: an outer
// product has the product of their sizes.
bool can_run(const ir::Graph& graph, const ir::Bindings& sizes) {
  return std::ranges::all_of(graph.values(), [&](const ir::Value& value) {
    if (!value.is_tensor() || !value.producer.valid()) {
      return true;
    }
    std::int64_t elements = 1;
    for (const ir::Expr& size : value.tensor().sizes) {
      const std::int64_t count = size.evaluate(sizes);
      if (count > 0 && elements > kMaxComputedElements / count) {
        return false;
      }
      elements *= count;
    }
    return true;
  });
}

bool is_close(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) {
    return false;
  }
  const bool is_half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  return at::allclose(a, b, is_half ? 2e-2 : 1e-4, is_half ? 1e-2 : 1e-5, /*equal_nan=*/true);
}

}  // namespace

SampledProgram::SampledProgram(const TraceProgram& trace,
                               const RunProgram& run,
                               const ExportedProgram& fixed,
                               const Tensors& example,
                               const DynamicShapes& shapes)
    : trace_(trace),
      run_(run),
      fixed_(fixed),
      example_(example),
      shapes_(shapes),
      hint_(sizes_in(shapes, example)) {}

ir::Bindings SampledProgram::completed(ir::Bindings sizes) const {
  sizes.insert(hint_.begin(), hint_.end());
  return sizes;
}

std::vector<std::int64_t> SampledProgram::sizes_of(std::size_t input,
                                                   const ir::Bindings& all) const {
  std::vector<std::int64_t> sizes;
  const std::vector<ir::Expr>& wanted = shapes_.input_sizes[input];
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const bool is_known = std::ranges::all_of(
        wanted[d].symbols(), [&](const std::string& name) { return all.contains(name); });
    sizes.push_back(is_known ? wanted[d].evaluate(all)
                             : example_[input].size(static_cast<std::int64_t>(d)));
  }
  return sizes;
}

bool is_known(const ir::Guard& guard, const ir::Bindings& all) {
  const auto has_values = [&](const ir::Expr& expr) {
    return std::ranges::all_of(expr.symbols(),
                               [&](const std::string& name) { return all.contains(name); });
  };
  return has_values(guard.left) && has_values(guard.right);
}

bool SampledProgram::keeps_guards(const ir::Bindings& sizes) const {
  const ir::Bindings all = completed(sizes);
  return std::ranges::all_of(shapes_.guards, [&](const ir::Guard& guard) {
    return !is_known(guard, all) || guard.holds(all);
  });
}

bool SampledProgram::is_affordable(const ir::Bindings& sizes) const {
  const ir::Bindings all = completed(sizes);
  for (std::size_t i = 0; i + shapes_.integers < shapes_.input_sizes.size(); ++i) {
    if (shapes_.input_sizes[i].empty()) {
      continue;
    }
    const std::int64_t limit = std::max(kMaxElements, example_[i].numel());
    try {
      std::int64_t elements = 1;
      for (const std::int64_t size : sizes_of(i, all)) {
        if (size < 0 || (size > 0 && elements > limit / size)) {
          return false;
        }
        // What is computed from an empty tensor need not be empty: a product of [n, 0] and [0, m].
        elements *= std::max<std::int64_t>(size, 1);
      }
    } catch (const Error&) {
      return false;  // 2*n at the end of a range without one is no number of 64 bits.
    }
  }
  return true;
}

Tensors SampledProgram::inputs_at(const ir::Bindings& sizes) const {
  const ir::Bindings all = completed(sizes);
  Tensors inputs = example_;
  for (std::size_t i = 0; i < shapes_.input_sizes.size(); ++i) {
    if (!shapes_.input_sizes[i].empty()) {
      inputs[i] = resize_input(example_[i], sizes_of(i, all));
    }
  }
  return inputs;
}

std::optional<ir::Graph> SampledProgram::trace_at(const ir::Bindings& sizes,
                                                  std::string* reason) const {
  try {
    ExportedProgram traced = trace_(inputs_at(sizes));
    if (!has_same_weights(traced)) {
      *reason = "where " + text_of(sizes) + ", the program has other constants";
      return std::nullopt;
    }
    return std::move(traced.graph);
  } catch (const std::exception& error) {
    const std::string message = error.what();
    *reason = "where " + text_of(sizes) + ", " + message.substr(0, message.find('\n'));
    return std::nullopt;
  }
}

bool SampledProgram::has_same_weights(const ExportedProgram& traced) const {
  return std::ranges::equal(fixed_.weights, traced.weights, [](const auto& a, const auto& b) {
    return a.first == b.first &&
           (a.second.is_same(b.second) ||
            (a.second.sizes() == b.second.sizes() && a.second.dtype() == b.second.dtype() &&
             at::equal(a.second, b.second)));
  });
}

bool SampledProgram::holds_at(const ir::Graph& graph,
                              const ir::Bindings& sizes,
                              std::string* reason) const {
  const std::optional<ir::Graph> trace = trace_at(sizes, reason);
  if (!trace) {
    return false;
  }
  // What another number computes may be too close to tell.
  const std::optional<ir::SampleDifference> difference = ir::find_difference(graph, sizes, *trace);
  if (difference && (difference->of_real || (!differs_in_views_alone(graph, sizes, *trace) &&
                                             !computes_the_same(graph, sizes)))) {
    *reason = "where " + text_of(sizes) + ", " + difference->what;
    return false;
  }
  return true;
}

bool SampledProgram::computes_the_same(const ir::Graph& graph, const ir::Bindings& sizes) const {
  const bool is_pure =
      std::ranges::none_of(graph.nodes(),
                           [](const ir::Node& node) { return node.random || node.effectful; }) &&
      std::ranges::all_of(graph.outputs(), [](const ir::Output& output) {
        return output.kind == ir::OutputKind::kUser;
      });
  if (!is_pure) {
    return false;
  }
  try {
    if (!can_run(graph, completed(sizes))) {
      return false;
    }
    const c10::AutoGradMode no_grad(false);
    Tensors inputs = inputs_at(sizes);
    // The program's own generator is not touched.
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(kSeed);
    for (at::Tensor& input : inputs) {
      if (input.is_floating_point() && input.is_cpu()) {
        input = at::empty_like(input).normal_(0, 1, generator);
      }
    }
    const Tensors expected = run_(inputs);
    const Tensors found = capture::Interpreter(graph).run(fixed_.graph_inputs(inputs));
    return std::ranges::equal(expected, found, is_close);
  } catch (const std::exception& error) {
    KILN_LOG(kDebug, "export", "where " << text_of(sizes) << ", " << error.what());
    return false;
  }
}

}  // namespace kiln::exporter

// Partitions that run: random programs and real models, through the interpreter.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/file.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/export.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/partitioner/memory.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using autograd_dispatch::Tensors;
using partitioner::default_partition;
using partitioner::min_cut_partition;
using partitioner::Partition;

std::size_t primal_count(const ir::Graph& graph) {
  return static_cast<std::size_t>(
      std::count_if(graph.inputs().begin(), graph.inputs().end(), [](const ir::Input& input) {
        return input.kind != ir::InputKind::kTangent;
      }));
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.clone());
  }
  return copies;
}

// The forward, then the backward, as a training step runs them: what the forward says of
// written inputs is written before the backward starts, and only what is saved stays in memory.
class Step {
 public:
  explicit Step(const Partition& partition)
      : forward_(partition.forward, {.check_metadata = true}),
        backward_(partition.backward, {.check_metadata = true}) {}

  // Takes primals, then tangents; returns what the program returns, then the gradients.
  [[nodiscard]] Tensors run(const Tensors& inputs, bool keep_outputs = true) const {
    const auto tangents = static_cast<std::ptrdiff_t>(forward_.graph().inputs().size());
    const Tensors primals(inputs.begin(), inputs.begin() + tangents);
    Tensors results;
    Tensors saved;
    {
      Tensors made = forward_.run(primals);
      for (std::size_t i = 0; i < made.size(); ++i) {
        const ir::Output& output = forward_.graph().outputs()[i];
        if (output.kind == ir::OutputKind::kSaved) {
          saved.push_back(std::move(made[i]));
          continue;
        }
        if (keep_outputs) {
          results.push_back(made[i].clone());
        }
        if (output.kind == ir::OutputKind::kMutation) {
          at::Tensor written = primals[output.input];
          written.copy_(made[i]);
        }
      }
    }
    saved.insert(saved.end(), inputs.begin() + tangents, inputs.end());
    for (at::Tensor& gradient : backward_.run(std::move(saved))) {
      results.push_back(std::move(gradient));
    }
    return results;
  }

 private:
  capture::Interpreter forward_;
  capture::Interpreter backward_;
};

bool same(const Tensors& a, const Tensors& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) {
        return x.defined() == y.defined() && (!x.defined() || torch::equal(x, y));
      });
}

// Some function of two differentiable matrices and a buffer, which it may write to.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : seed_(seed) {}

  Tensors operator()(const Tensors& inputs) const {
    std::mt19937 random(seed_);
    const auto below = [&](std::size_t end) {
      return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    Tensors values{inputs[0], inputs[1], inputs[2] * 1};
    const auto pick = [&] {
      return values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 5))];
    };
    if (below(3) == 0) {
      inputs[2].mul_(0.5).add_(inputs[0].detach().tanh());
    }
    for (std::size_t i = 4 + below(12); i > 0; --i) {
      values.push_back(kSteps[below(std::size(kSteps))](pick(), pick()));
    }
    Tensors outputs{values.back().tanh()};
    if (below(2) == 0) {
      outputs.push_back(pick().mean());
    }
    return outputs;
  }

 private:
  using StepFunction = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
  static constexpr StepFunction kSteps[] = {
      [](const at::Tensor& a, const at::Tensor&) { return a.sin(); },
      [](const at::Tensor& a, const at::Tensor&) { return torch::gelu(a); },
      [](const at::Tensor& a, const at::Tensor&) { return torch::relu(a); },
      [](const at::Tensor& a, const at::Tensor& b) { return a * b.tanh(); },
      [](const at::Tensor& a, const at::Tensor& b) { return a + b.t(); },
      [](const at::Tensor& a, const at::Tensor& b) { return torch::mm(a, b).tanh(); },
      [](const at::Tensor& a, const at::Tensor&) { return torch::softmax(a, 1); },
      [](const at::Tensor& a, const at::Tensor&) { return torch::layer_norm(a, {8}); },
      [](const at::Tensor& a, const at::Tensor&) { return torch::dropout(a, 0.3, true); },
      [](const at::Tensor& a, const at::Tensor&) { return a / (1 + a.square().sum(1, true)); },
      [](const at::Tensor& a, const at::Tensor& b) { return torch::cat({a, b}).chunk(2)[1]; },
      [](const at::Tensor& a, const at::Tensor&) { return a.view({4, 16}).cos().view({8, 8}); },
      [](const at::Tensor& a, const at::Tensor& b) { return (a * 1).mul_(2).select(0, 1) + b; },
  };

  unsigned seed_;
};

TEST_CASE("PT-25 random programs: forward then backward equals the joint graph for every budget",
          "[integration][partition]") {
  int recomputing = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    torch::manual_seed(seed);
    const Tensors primals{torch::randn({8, 8}).requires_grad_(),
                          torch::randn({8, 8}).requires_grad_(),
                          torch::randn({8, 8})};
    const ir::Graph joint = autograd_dispatch::trace_joint(RandomProgram(seed), primals).graph;
    INFO("seed " << seed << "\n" << ir::print(joint));
    const at::NoGradGuard no_grad;
    Tensors inputs = copies_of(primals);
    for (const ir::Input& input : joint.inputs().subspan(primal_count(joint))) {
      std::vector<std::int64_t> sizes;
      for (const ir::Expr& size : joint.tensor(input.value).sizes) {
        sizes.push_back(size.constant().value());
      }
      inputs.push_back(torch::randn(sizes));
    }
    const auto run = [&](const auto& what) {
      torch::manual_seed(7);  // The forward draws; the backward must not draw again.
      return what.run(copies_of(inputs));
    };
    const Tensors expected = run(capture::Interpreter(joint, {.check_metadata = true}));

    REQUIRE(same(run(Step(default_partition(joint))), expected));
    for (const double budget : {1.0, 0.75, 0.5, 0.25, 0.0}) {
      CAPTURE(budget);
      const Partition partition = min_cut_partition(joint, {.memory_budget = budget});
      REQUIRE(same(run(Step(partition)), expected));
      recomputing += partition.forward.nodes().size() + partition.backward.nodes().size() >
                             joint.nodes().size()
                         ? 1
                         : 0;
    }
    REQUIRE(same(run(Step(min_cut_partition(joint, {.recompute_views = true}))), expected));
    REQUIRE(
        same(run(Step(min_cut_partition(joint, {.aggressive_recomputation = true}))), expected));
  }
  CHECK(recomputing > 40);
}

TEST_CASE("EX-35 test_aot_export_simplified_basic: a simple joint graph is split into two",
          "[integration][partition]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] * in[1], in[0].sin() + in[1]};
  };
  const auto leaf = [] { return torch::rand({3}, torch::requires_grad()); };
  const ir::Graph joint = exporter::export_joint_simple(function, {leaf(), leaf()});
  const Tensors inputs = {leaf(), leaf()}, tangents = {torch::rand({3}), torch::rand({3})};

  const Partition parts = default_partition(joint);
  const Tensors results =
      Step(parts).run({inputs[0].detach(), inputs[1].detach(), tangents[0], tangents[1]});

  CHECK(primal_count(parts.forward) == parts.forward.inputs().size());
  CHECK(parts.backward.outputs().size() == 2);
  const Tensors outputs = function(inputs);
  const Tensors gradients = torch::autograd::grad(outputs, inputs, tangents);
  REQUIRE(results.size() == 4);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(torch::allclose(results[i], outputs[i]));
    CHECK(torch::allclose(results[2 + i], gradients[i]));
  }
}

// Counts the bytes that libtorch's CPU allocator hands out on this thread.
class AllocationMeter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/,
                         int64_t size,
                         std::size_t /*total_allocated*/,
                         std::size_t /*total_reserved*/,
                         c10::Device /*device*/) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
};

std::int64_t measured_peak(const std::function<void()>& work) {
  const auto meter = std::make_shared<AllocationMeter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
  work();
  return meter->peak();
}

// What convolutions allocate for themselves depends on the number of threads.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// Inputs of the right types; integers are words and classes, of which every model has ten.
Tensors inputs_for(const ir::Graph& graph) {
  Tensors inputs;
  for (const ir::Input& input : graph.inputs()) {
    const ir::TensorMeta& meta = graph.tensor(input.value);
    std::vector<std::int64_t> sizes;
    for (const ir::Expr& size : meta.sizes) {
      sizes.push_back(size.constant().value());
    }
    inputs.push_back(meta.dtype == ir::DType::kInt64 ? torch::randint(10, sizes, torch::kLong)
                                                     : torch::rand(sizes) - 0.5);
  }
  return inputs;
}

TEST_CASE("PT-18 the measured peak of a model never rises when the budget falls",
          "[integration][partition]") {
  const std::string name = GENERATE("gpt2", "bert", "resnet18", "vit");
  CAPTURE(name);
  const OneThread one_thread;
  const at::NoGradGuard no_grad;
  torch::manual_seed(0);
  const ir::Graph joint = ir::parse(
      read_file(std::filesystem::path(KILN_FILETESTS) / "partitioner/models" / (name + ".kir")));
  const Tensors inputs = inputs_for(joint);
  torch::manual_seed(1);
  const Tensors expected = capture::Interpreter(joint).run(inputs);

  std::int64_t first = 0;
  std::int64_t last = 0;
  for (const double budget : {1.0, 0.6, 0.2, 0.05, 0.0}) {
    CAPTURE(budget);
    const Partition partition = min_cut_partition(joint, {.memory_budget = budget});
    const Step step(partition);
    torch::manual_seed(1);
    CHECK(same(step.run(inputs), expected));
    const std::int64_t peak = measured_peak([&] { (void)step.run(inputs, false); });
    CHECK((last == 0 || peak <= last));
    // What the simulation does not know is what operators allocate for themselves.
    CHECK(static_cast<double>(peak) >= partitioner::simulate_memory(partition).peak());
    first = first == 0 ? peak : first;
    last = peak;
  }
  CHECK(last < first);
}

}  // namespace
}  // namespace kiln

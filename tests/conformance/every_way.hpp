// One function, compiled in every way there is, against eager.

#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/autograd_dispatch/plan_bytes.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/shadow_inputs.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/kiln.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/partitioner/partition.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::testing {

/// Gives inputs, requiring grad or not.
using MakeInputs = std::function<Inputs(bool requires_grad)>;

inline std::pair<ir::Graph, ir::Graph> in_program_order(const ir::Graph& joint) {
  partitioner::Partition parts = partitioner::default_partition(joint);
  return {std::move(parts.forward), std::move(parts.backward)};
}

inline std::pair<ir::Graph, ir::Graph> by_minimum_cut(const ir::Graph& joint) {
  partitioner::Partition parts = partitioner::min_cut_partition(joint);
  return {std::move(parts.forward), std::move(parts.backward)};
}

/// What the cache knows a trace by.
inline std::string identity_of(const autograd_dispatch::JointTrace& trace) {
  return ir::canonical_bytes(trace.graph, {.user_names = false}) +
         autograd_dispatch::to_bytes(trace.plan);
}

/// `function` traced at each call and run by the interpreter. Its trace does not depend on whether
/// values are computed.
inline TensorFunction interpreted(const TensorFunction& function,
                                  bool keep_mutations_in_graph = true,
                                  autograd_dispatch::PartitionFunction partition = by_minimum_cut) {
  return [=](const Tensors& arguments) {
    autograd_dispatch::TraceOptions options{.keep_mutations_in_graph = keep_mutations_in_graph};
    autograd_dispatch::JointTrace trace =
        autograd_dispatch::trace_joint(function, arguments, options);
    options.without_values = false;
    CHECK(identity_of(trace) ==
          identity_of(autograd_dispatch::trace_joint(function, arguments, options)));
    Tensors all = arguments;
    all.insert(all.end(), trace.captured.begin(), trace.captured.end());
    return autograd_dispatch::dispatch(std::move(trace), {.partition = partition})(all);
  };
}

/// Tensors that are to each other as `arguments` are, with other numbers: whatever a trace took
/// from the data is wrong for them. Views, and arguments with a history, are taken as they are.
inline Tensors with_other_numbers(const Tensors& arguments) {
  const auto is_plain = [](const at::Tensor& x) {
    return x.defined() && x.is_leaf() && !x.is_view();
  };
  if (!std::ranges::all_of(arguments, is_plain)) {
    return arguments;
  }
  const torch::NoGradGuard no_grad;
  Tensors others = capture::make_shadow_inputs(arguments);
  std::set<const c10::StorageImpl*> changed;
  for (const torch::Tensor& other : others) {
    if (other.is_floating_point() && other.has_storage() &&
        changed.insert(other.storage().unsafeGetStorageImpl()).second) {
      const auto count = static_cast<std::int64_t>(other.storage().nbytes() / other.itemsize());
      torch::empty({0}, other.options()).set_(other.storage(), 0, {count}, {1}).mul_(0.78125);
    }
  }
  return others;
}

/// `compiled`, compiled before it is called, on other data: a first call may return what its trace
/// computed.
inline TensorFunction prepared(const Function& compiled) {
  return [compiled](const Tensors& arguments) {
    compiled.prepare(with_other_numbers(arguments));
    return compiled(arguments);
  };
}

/// `function` as the facade compiles it, without a cache.
inline TensorFunction generated(const TensorFunction& function) {
  CompileOptions options;
  options.use_cache = false;
  return prepared(compile(function, options));
}

/// `function` as the facade compiles it and keeps it in `cache`, which has no other one.
inline Function cached(const TensorFunction& function,
                       const TemporaryDirectory& cache,
                       bool keep_mutations_in_graph = true) {
  CompileOptions options;
  options.cache_directory = cache.path();
  options.identity = "a case";
  options.keep_mutations_in_graph = keep_mutations_in_graph;
  return compile(function, options);
}

/// Interpreter and generated code, writes to inputs in the graph and outside, with and without
/// gradients, compiled anew and from the cache.
inline void check_every_way(const TensorFunction& function,
                            const MakeInputs& make,
                            Tolerance tolerance = {}) {
  for (const bool requires_grad : {true, false}) {
    const auto inputs = [&] { return make(requires_grad); };
    {
      INFO("interpreter, writes in the graph, requires_grad " << requires_grad);
      check_like_eager(function, interpreted(function), inputs, tolerance);
    }
    {
      INFO("interpreter, writes outside the graph, requires_grad " << requires_grad);
      check_like_eager(function, interpreted(function, false, in_program_order), inputs, tolerance);
    }
    const TemporaryDirectory cache;
    for (const bool cold : {true, false}) {
      INFO("generated code, " << (cold ? "new" : "from the cache") << ", requires_grad "
                              << requires_grad);
      const Function compiled = cached(function, cache);
      check_like_eager(function, prepared(compiled), inputs, tolerance);
      for (const GraphReport& graph : compiled.report().graphs) {
        CHECK(graph.cache_hit == !cold);
      }
    }
    {
      INFO("generated code, writes outside the graph, requires_grad " << requires_grad);
      check_like_eager(function, prepared(cached(function, cache, false)), inputs, tolerance);
    }
  }
}

/// Leaves of `shapes`, to be passed as they are.
inline MakeInputs leaves(std::vector<std::vector<std::int64_t>> shapes) {
  return [shapes = std::move(shapes)](bool requires_grad) {
    Tensors made;
    for (const auto& shape : shapes) {
      made.push_back(torch::randn(shape, torch::requires_grad(requires_grad)));
    }
    return Inputs(std::move(made));
  };
}

/// Leaves of `shapes`, each passed as `leaf + 1`: what may be written.
inline MakeInputs computed(std::vector<std::vector<std::int64_t>> shapes) {
  return [make = leaves(std::move(shapes))](bool requires_grad) {
    Tensors made = make(requires_grad).leaves;
    Tensors arguments;
    for (const torch::Tensor& leaf : made) {
      arguments.push_back(leaf.add(1));
    }
    return Inputs(std::move(made), std::move(arguments));
  };
}

/// Views of `leaf + 1`, a leaf of `shape`.
inline MakeInputs views(std::vector<std::int64_t> shape,
                        std::function<Tensors(const torch::Tensor&)> of) {
  return [shape = std::move(shape), of = std::move(of)](bool requires_grad) {
    torch::Tensor leaf = torch::randn(shape, torch::requires_grad(requires_grad));
    return Inputs({leaf}, of(leaf.add(1)));
  };
}

}  // namespace kiln::testing

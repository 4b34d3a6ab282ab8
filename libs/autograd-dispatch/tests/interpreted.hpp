// Functions that are dispatched as ever, and whose graphs the interpreter runs.

#pragma once

#include <utility>

#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/partitioner/partition.hpp"

namespace kiln::autograd_dispatch {

/// Everything that the backward needs is saved.
inline std::pair<ir::Graph, ir::Graph> split(const ir::Graph& joint) {
  partitioner::Partition parts = partitioner::default_partition(joint);
  return {std::move(parts.forward), std::move(parts.backward)};
}

/// Saves what is cheaper to save than to compute again.
inline std::pair<ir::Graph, ir::Graph> cut(const ir::Graph& joint) {
  partitioner::Partition parts = partitioner::min_cut_partition(joint);
  return {std::move(parts.forward), std::move(parts.backward)};
}

/// Traces on the inputs of the first call and compiles with the interpreter.
inline TensorFunction compiled(const TensorFunction& function,
                               PartitionFunction partition = split) {
  return [=](const Tensors& inputs) {
    JointTrace trace = trace_joint(function, inputs);
    Tensors all = inputs;
    all.insert(all.end(), trace.captured.begin(), trace.captured.end());
    return dispatch(std::move(trace), {.partition = partition})(all);
  };
}

}  // namespace kiln::autograd_dispatch

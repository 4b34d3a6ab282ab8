// What autograd-dispatch asks of a compiler and of a partitioner. Both are handed in: it knows
// neither.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::autograd_dispatch {

/// The arguments or the results of a function.
using Tensors = std::vector<at::Tensor>;
/// A function of tensors.
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// A compiled graph. Takes one tensor per graph input and may empty the list; writes what the
/// graph's outputs of kind `kMutation` say into those inputs; returns one tensor for each other
/// output, undefined where the graph has none.
using CompiledGraph = std::function<Tensors(Tensors)>;

/// From a functional graph to something that runs it.
using Compiler = std::function<CompiledGraph(const ir::Graph&)>;

/// What a compiler is called for, on the thread that calls it: "0_forward", "1_inference",
/// "0_backward", with the number of the function in the order in which this process dispatched
/// them. Empty elsewhere.
[[nodiscard]] const std::string& compilation_id();

/// From a joint graph to its forward and its backward (see joint.hpp for the order of inputs and
/// outputs).
using PartitionFunction = std::function<std::pair<ir::Graph, ir::Graph>(const ir::Graph&)>;

/// The compiler that interprets: always right, and the reference for the others.
[[nodiscard]] CompiledGraph interpret(const ir::Graph& graph);

}  // namespace kiln::autograd_dispatch

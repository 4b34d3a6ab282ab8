#include "program/extern_call.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "kiln/base/error.hpp"
#include "libtorch/shim_table.hpp"

namespace kiln::codegen {
namespace {

// The shim takes every Scalar as a double. That changes the result's type where an integer tensor
// meets it, and the value where the integer is large.
bool scalars_survive(const ir::Graph& graph, const ir::Node& node, const ShimFunction& shim) {
  const Signature signature = parse_signature(shim.signature);
  if (node.arguments.size() != signature.arguments.size()) {
    return false;
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    if (signature.arguments[i].base != SchemaType::Base::kScalar) {
      continue;
    }
    const ir::Argument& argument = node.arguments[i];
    if (std::holds_alternative<std::complex<double>>(argument)) {
      return false;
    }
    // A product into a given tensor takes its type from that tensor.
    const bool floating =
        std::all_of(node.results.begin(), node.results.end(), [&](ir::ValueId result) {
          return !result.valid() || ir::is_floating_point(graph.tensor(result).dtype);
        });
    if (!shim.out && !floating) {
      return false;
    }
  }
  return true;
}

// Kernels read what the plan says, and a caller is promised the types. What only goes on to
// libtorch may be as it likes: some of its operators return nothing where a trace saw something.
void expect(Emission& emission, const ir::Node& node, BufferId id) {
  const BufferPlan& plan = emission.program().plan(id);
  if (!plan.needs_pointer && !plan.leaves) {
    return;
  }
  const Buffer& buffer = emission.program().buffer(id);
  const std::string refusal =
      node.target + " returned another type, or other sizes, than the model was compiled for";
  const std::string rank = plan.needs_pointer ? std::to_string(buffer.sizes.size()) : "-1";
  emission.text().line("TRY(expect(call, " + string_literal(refusal) + ", " + emission.owned(id) +
                       ", " + std::to_string(static_cast<int>(buffer.dtype)) + ", " + rank + ", " +
                       (plan.needs_pointer ? emission.list(buffer.sizes) : "nullptr") + "));");
}

// The kernels rely on the strides that were planned; libtorch may choose others, if it was given
// another layout than the trace saw, or is another version.
void settle(Emission& emission, BufferId id) {
  const Buffer& buffer = emission.program().buffer(id);
  if (!buffer.sizes.empty()) {
    emission.text().line("TRY(settle(" + emission.owned(id) + ", " +
                         std::to_string(buffer.sizes.size()) + ", " + emission.list(buffer.sizes) +
                         ", " + emission.list(buffer.strides) + ", " +
                         std::to_string(static_cast<int>(buffer.dtype)) + "));");
  }
}

}  // namespace

Rung choose_rung(const ir::Graph& graph, const ir::Node& node) {
  const ShimFunction* shim = find_shim_function(node.target);
  if (shim != nullptr && scalars_survive(graph, node, *shim)) {
    return shim->out ? Rung::kShimOut : Rung::kShim;
  }
  if (std::any_of(node.arguments.begin(), node.arguments.end(), [](const ir::Argument& argument) {
        return std::holds_alternative<ir::SubgraphRef>(argument);
      })) {
    throw Error(ErrorCode::kUnsupported,
                node.target + " is control flow, for which no code is generated yet");
  }
  if (node.signature.empty() && shim == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                node.target + " has neither a kernel nor a recorded signature to call it by");
  }
  const Signature signature = signature_of(node);
  if (dispatcher_obstacle(node, signature) == nullptr) {
    return Rung::kDispatcher;
  }
  if (const char* obstacle = proxy_obstacle(node, signature)) {
    throw Error(ErrorCode::kUnsupported,
                node.target + " cannot be called from a model library: " + obstacle);
  }
  return Rung::kProxy;
}

Signature signature_of(const ir::Node& node) {
  const ShimFunction* shim = find_shim_function(node.target);
  return parse_signature(node.signature.empty() && shim != nullptr
                             ? shim->signature
                             : std::string_view(node.signature));
}

void emit_extern_call(Emission& emission, const ir::Node& node, std::uint32_t step) {
  const Program& program = emission.program();
  switch (choose_rung(*program.graph, node)) {
    case Rung::kShimOut: emit_shim_call(emission, node, true); return;
    case Rung::kShim: emit_shim_call(emission, node, false); break;
    case Rung::kDispatcher: emit_dispatcher_call(emission, node); break;
    case Rung::kProxy: emit_proxy_call(emission, node); break;
  }
  emission.release_scratch();
  for (const ir::ValueId result : node.results) {
    if (!result.valid() || !program.location(result)) {
      continue;
    }
    const BufferId buffer = program.location(result)->buffer;
    expect(emission, node, buffer);
    settle(emission, buffer);
    if (program.plan(buffer).needs_pointer && program.plan(buffer).last > step) {
      emission.text().line("TRY(aoti_torch_get_data_ptr(" + emission.owned(buffer) + ", &m.at[" +
                           std::to_string(buffer.index()) + "]));");
    }
  }
}

}  // namespace kiln::codegen

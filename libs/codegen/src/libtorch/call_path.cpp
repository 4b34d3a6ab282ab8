#include "libtorch/call_path.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <string_view>
#include <variant>

#include "kiln/base/error.hpp"
#include "libtorch/shim_table.hpp"

namespace kiln::codegen {
namespace {

using Base = SchemaType::Base;

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

bool can_carry(const ir::Argument& argument) {
  return !std::holds_alternative<std::complex<double>>(argument) &&
         !std::holds_alternative<ir::SubgraphRef>(argument) &&
         !std::holds_alternative<std::vector<std::string>>(argument);
}

// An obstacle is the reason why `node` cannot be called so, or null.

const char* dispatcher_obstacle(const ir::Node& node, const Signature& signature) {
  if (signature.arguments.size() != node.arguments.size()) {
    return "its signature and its arguments differ in number";
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const bool none = std::holds_alternative<std::monostate>(node.arguments[i]);
    const Base base = signature.arguments[i].base;
    if (base == Base::kScalar && !(none && signature.arguments[i].optional)) {
      return "it takes a Scalar, which a boxed call cannot carry";
    }
    if ((base == Base::kOther || base == Base::kGenerator) && !none) {
      return "it takes an argument that a boxed call cannot carry";
    }
    if (!can_carry(node.arguments[i])) {
      return "it takes an argument that a boxed call cannot carry";
    }
  }
  std::size_t lists = 0;
  for (const SchemaType& result : signature.results) {
    if (result.base != Base::kTensor) {
      return "it returns something other than tensors";
    }
    lists += result.list ? 1 : 0;
  }
  return lists > 1 ? "it returns more than one list" : nullptr;
}

const char* proxy_obstacle(const ir::Node& node, const Signature& signature) {
  if (signature.arguments.size() != node.arguments.size()) {
    return "its signature and its arguments differ in number";
  }
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const ir::Argument& argument = node.arguments[i];
    const Base base = signature.arguments[i].base;
    const bool none = std::holds_alternative<std::monostate>(argument);
    if (const auto* number = std::get_if<double>(&argument); number && !std::isfinite(*number)) {
      return "it takes a number that is not finite, which JSON cannot carry";
    }
    if (std::holds_alternative<ir::RealExpr>(argument)) {
      return "it takes a number that depends on sizes and is no integer, which JSON cannot carry";
    }
    if (const auto* list = std::get_if<std::vector<ir::Expr>>(&argument); list && list->empty()) {
      return "it takes an empty list of integers, which the host's executor passes as none";
    }
    if ((!none && (base == Base::kOther || base == Base::kGenerator)) ||
        std::holds_alternative<std::complex<double>>(argument) ||
        std::holds_alternative<ir::SubgraphRef>(argument)) {
      return "it takes an argument that no call from outside libtorch can carry";
    }
  }
  std::size_t lists = 0;
  for (const SchemaType& result : signature.results) {
    if (result.base != Base::kTensor) {
      return "it returns something other than tensors";
    }
    lists += result.list ? 1 : 0;
  }
  if (lists > 1) {
    return "it returns more than one list";
  }
  const bool named = std::none_of(signature.names.begin(),
                                  signature.names.end(),
                                  [](const std::string& name) { return name.empty(); });
  return named ? nullptr : "its signature does not name its arguments";
}

}  // namespace

CallPath choose_call_path(const ir::Graph& graph, const ir::Node& node) {
  const ShimFunction* shim = find_shim_function(node.target);
  if (shim != nullptr && scalars_survive(graph, node, *shim)) {
    return shim->out ? CallPath::kShimOut : CallPath::kShim;
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
    return CallPath::kDispatcher;
  }
  if (const char* obstacle = proxy_obstacle(node, signature)) {
    throw Error(ErrorCode::kUnsupported,
                node.target + " cannot be called from a model library: " + obstacle);
  }
  return CallPath::kProxy;
}

Signature signature_of(const ir::Node& node) {
  const ShimFunction* shim = find_shim_function(node.target);
  return parse_signature(node.signature.empty() && shim != nullptr
                             ? shim->signature
                             : std::string_view(node.signature));
}

}  // namespace kiln::codegen

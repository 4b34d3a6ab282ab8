#include "kiln/capture/convert.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include "kiln/base/error.hpp"
#include "operator_facts.hpp"

namespace kiln::capture {

ir::TensorMeta meta_of(const at::Tensor& tensor) {
  ir::TensorMeta meta;
  meta.dtype = static_cast<ir::DType>(tensor.scalar_type());
  meta.device = {static_cast<ir::DeviceType>(tensor.device().type()), tensor.device().index()};
  meta.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (tensor.layout() == c10::kStrided) {
    meta.strides.assign(tensor.strides().begin(), tensor.strides().end());
    meta.offset = tensor.storage_offset();
  }
  meta.requires_grad = tensor.requires_grad();
  meta.conjugate = tensor.is_conj();
  meta.negative = tensor.is_neg();
  return meta;
}

std::string target_of(const c10::OperatorName& name) {
  const std::size_t colons = name.name.find("::");
  std::string target = name.name.substr(0, colons) + "." + name.name.substr(colons + 2) + ".";
  return target + (name.overload_name.empty() ? "default" : name.overload_name);
}

c10::OperatorName operator_name_of(const std::string& target) {
  const std::size_t first = target.find('.');
  const std::size_t last = target.rfind('.');
  if (first == std::string::npos || first == last) {
    throw Error(ErrorCode::kInvalidArgument,
                "'" + target + "' is not an operator: expected namespace.name.overload");
  }
  const std::string overload = target.substr(last + 1);
  return {target.substr(0, first) + "::" + target.substr(first + 1, last - first - 1),
          overload == "default" ? "" : overload};
}

void complete_signatures(ir::Graph& graph) {
  for (std::size_t i = 0; i < std::as_const(graph).nodes().size(); ++i) {
    ir::Node& node = graph.node(ir::NodeId(i));
    if (!node.signature.empty() || !node.target.starts_with("aten.")) {
      continue;
    }
    if (const auto op = c10::Dispatcher::singleton().findSchema(operator_name_of(node.target))) {
      node.signature = facts_of(*op).signature;
    }
  }
}

}  // namespace kiln::capture

#include "folded_constants.hpp"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/retarget.hpp"

namespace kiln {
namespace {

std::vector<std::int64_t> numbers(const std::vector<ir::Expr>& expressions) {
  std::vector<std::int64_t> result;
  for (const ir::Expr& expression : expressions) {
    result.push_back(expression.constant().value());
  }
  return result;
}

at::TensorOptions options_of(const ir::TensorMeta& meta) {
  return at::TensorOptions().dtype(static_cast<at::ScalarType>(meta.dtype));
}

at::Tensor empty_like(const ir::TensorMeta& meta) {
  return at::empty_strided(numbers(meta.sizes), numbers(meta.strides), options_of(meta));
}

}  // namespace

bool is_constant(const ir::Input& input) {
  return input.kind == ir::InputKind::kParameter || input.kind == ir::InputKind::kBuffer ||
         input.kind == ir::InputKind::kConstant;
}

FoldedConstants::FoldedConstants(const std::string& folding,
                                 std::span<const codegen::ConstantData> constants) {
  if (folding.empty()) {
    return;
  }
  const c10::AutoGradMode no_grad(false);
  // The weights are on the host, whatever the model is for.
  ir::Graph graph = ir::retarget(ir::parse(folding), ir::DeviceType::kCpu);
  graph.symbols().clear();  // What is folded has one size.
  graph.hints().clear();
  std::vector<at::Tensor> inputs;
  std::size_t next = 0;
  for (const ir::Input& input : graph.inputs()) {
    if (!is_constant(input)) {
      inputs.emplace_back();  // Nobody reads it.
      continue;
    }
    const ir::TensorMeta& meta = graph.tensor(input.value);
    ensure(next < constants.size(), "a constant without a value");
    // Only read through.
    auto* const bytes = const_cast<std::byte*>(constants[next++].bytes.data());
    inputs.push_back(
        at::from_blob(bytes, numbers(meta.sizes), numbers(meta.strides), options_of(meta)));
  }
  tensors_ = capture::Interpreter(graph).run(std::move(inputs));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ir::TensorMeta& meta = graph.tensor(graph.outputs()[i].value);
    if (tensors_[i].strides() != at::IntArrayRef(numbers(meta.strides))) {
      tensors_[i] = empty_like(meta).copy_(tensors_[i]);
    }
    data_.push_back({std::as_bytes(
        std::span(static_cast<const char*>(tensors_[i].const_data_ptr()), tensors_[i].nbytes()))});
  }
}

}  // namespace kiln

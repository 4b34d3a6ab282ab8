#include "packed_operators.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/mm.h>

#include <optional>
#include <variant>
#include <vector>

#include "kiln/ir/packed_operators.hpp"

namespace kiln::capture {
namespace {

class PackedCall {
 public:
  PackedCall(const ir::Node& node, std::span<const at::Tensor> values)
      : node_(node), values_(values) {}

  // [panels, depth, width] is a matrix of `panels * width` columns.
  [[nodiscard]] at::Tensor mm() const {
    const at::Tensor panels = tensor(1).permute({1, 0, 2});
    const at::Tensor product = at::mm(tensor(0), panels.reshape({panels.size(0), -1}));
    const std::optional<at::Tensor> added = optional_tensor(2);
    return added ? at::add(product, *added) : product;
  }

  // [panels, rows, columns, channels, width] is a weight of `panels * width` channels.
  [[nodiscard]] at::Tensor convolution() const {
    const at::Tensor weight = tensor(1).permute({0, 4, 3, 1, 2}).flatten(0, 1);
    return at::convolution(tensor(0),
                           weight,
                           optional_tensor(2),
                           integers(3),
                           integers(4),
                           integers(5),
                           /*transposed=*/false,
                           /*output_padding=*/{0, 0},
                           /*groups=*/1)
        .contiguous(at::MemoryFormat::ChannelsLast);
  }

 private:
  [[nodiscard]] at::Tensor tensor(std::size_t i) const {
    return values_[std::get<ir::ValueId>(node_.arguments.at(i)).index()];
  }

  [[nodiscard]] std::optional<at::Tensor> optional_tensor(std::size_t i) const {
    const bool given = std::holds_alternative<ir::ValueId>(node_.arguments.at(i));
    return given ? std::optional(tensor(i)) : std::nullopt;
  }

  [[nodiscard]] std::vector<std::int64_t> integers(std::size_t i) const {
    std::vector<std::int64_t> result;
    for (const ir::Expr& expr : std::get<std::vector<ir::Expr>>(node_.arguments.at(i))) {
      result.push_back(expr.constant().value());
    }
    return result;
  }

  const ir::Node& node_;
  std::span<const at::Tensor> values_;
};

}  // namespace

bool is_packed_operator(std::string_view target) {
  return target == ir::kPackedMm || target == ir::kPackedConvolution;
}

at::Tensor run_packed_operator(const ir::Node& node, std::span<const at::Tensor> values) {
  const PackedCall call(node, values);
  return node.target == ir::kPackedMm ? call.mm() : call.convolution();
}

}  // namespace kiln::capture

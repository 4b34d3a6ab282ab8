// ATen's type promotion, where the result's recorded type does not show it: comparisons.

#include <algorithm>
#include <array>
#include <optional>

#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

int category(DType dtype) {
  return ir::is_floating_point(dtype) ? 2 : dtype == DType::kBool ? 0 : 1;
}

DType promote_types(DType a, DType b) {
  if (a == b) {
    return a;
  }
  if (category(a) != category(b)) {
    return category(a) > category(b) ? a : b;
  }
  if (ir::size_of(a) != ir::size_of(b)) {
    const DType larger = ir::size_of(a) > ir::size_of(b) ? a : b;
    return larger;
  }
  // Equal sizes of one category: half with bfloat16, or uint8 with int8.
  return category(a) == 2 ? DType::kFloat32 : DType::kInt16;
}

}  // namespace

DType Lowering::promote(std::size_t first, std::size_t second) const {
  // Tensors with dims come before 0-d tensors, those before numbers; a later one only counts if its
  // category is higher.
  std::array<std::optional<DType>, 3> levels;
  for (const std::size_t i : {first, second}) {
    std::size_t level = 2;
    DType type = DType::kInt64;
    if (is_tensor(i)) {
      type = dtype(tensor(i));
      level = sizes(tensor(i)).empty() ? 1 : 0;
    } else if (std::holds_alternative<double>(node_.arguments.at(i)) ||
               std::holds_alternative<ir::RealExpr>(node_.arguments.at(i))) {
      type = DType::kFloat32;
    } else if (std::holds_alternative<bool>(node_.arguments.at(i))) {
      type = DType::kBool;
    }
    levels[level] = levels[level] ? promote_types(*levels[level], type) : type;
  }
  std::optional<DType> result;
  for (const std::optional<DType>& level : levels) {
    if (level && (!result || category(*level) > category(*result))) {
      result = level;
    }
  }
  return *result;
}

}  // namespace kiln::codegen

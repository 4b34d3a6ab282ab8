#include "integer_inputs.hpp"

#include <ATen/Functions.h>

#include <algorithm>

#include "kiln/base/error.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::exporter {

bool can_be_length(std::int64_t value) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 22;  // Bytes of a trace's input.
  return value >= 0 && value <= kLongest;
}

at::Tensor stand_in_for(const SymbolicInteger& integer) {
  return at::zeros({integer.is_length ? integer.value : 0}, at::kChar);
}

c10::IValue passed_value(const ArchivedProgram& archived,
                         std::uint32_t position,
                         const at::Tensor& input) {
  const auto integer =
      std::ranges::find(archived.input_integers, position, &SymbolicInteger::input);
  if (integer == archived.input_integers.end()) {
    return input;
  }
  return integer->is_length ? input.size(0) : integer->value;
}

void restore_integers(const ArchivedProgram& archived, ExportedProgram* program) {
  if (archived.input_integers.empty()) {
    return;
  }
  std::vector<ir::ValueId> user_inputs;
  for (const ir::Input& input : program->graph.inputs()) {
    if (input.kind == ir::InputKind::kUser) {
      user_inputs.push_back(input.value);
    }
  }
  for (const SymbolicInteger& integer : archived.input_integers) {
    ir::Value& value = program->graph.value(user_inputs.at(integer.input));
    value.meta = ir::SymIntMeta{.expr = integer.is_length ? value.tensor().sizes.at(0)
                                                          : ir::Expr(integer.value)};
    program->sample_inputs.at(integer.input) = at::scalar_tensor(integer.value, at::kLong);
  }
  ir::verify(program->graph);
}

}  // namespace kiln::exporter

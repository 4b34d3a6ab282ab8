// A node's arguments by position, as what a lowering takes them for.

#include <algorithm>
#include <numeric>

#include "kiln/base/error.hpp"
#include "lower/lowering.hpp"

namespace kiln::codegen {

using ir::Argument;
using ir::Expr;

std::size_t wrap(std::int64_t dim, std::size_t rank) {
  return static_cast<std::size_t>(
      dim < 0 ? dim + static_cast<std::int64_t>(std::max<std::size_t>(rank, 1)) : dim);
}

bool Lowering::has(std::size_t i) const {
  if (i >= node_.arguments.size() || std::holds_alternative<std::monostate>(node_.arguments[i])) {
    return false;
  }
  const auto* value = std::get_if<ir::ValueId>(&node_.arguments[i]);
  return value == nullptr || value->valid();
}

bool Lowering::is_tensor(std::size_t i) const {
  if (!has(i)) {
    return false;
  }
  const auto* value = std::get_if<ir::ValueId>(&node_.arguments[i]);
  return value != nullptr && graph_.value(*value).is_tensor();
}

TensorId Lowering::tensor(std::size_t i) const {
  const ir::ValueId value = std::get<ir::ValueId>(node_.arguments.at(i));
  return program_.of_value[value.index()].value();
}

std::vector<TensorId> Lowering::tensors(std::size_t i) const {
  std::vector<TensorId> result;
  for (const ir::ValueId value : std::get<std::vector<ir::ValueId>>(node_.arguments.at(i))) {
    result.push_back(program_.of_value[value.index()].value());
  }
  return result;
}

std::vector<std::optional<TensorId>> Lowering::optional_tensors(std::size_t i) const {
  std::vector<std::optional<TensorId>> result;
  for (const ir::ValueId value : std::get<std::vector<ir::ValueId>>(node_.arguments.at(i))) {
    result.push_back(value.valid() ? program_.of_value[value.index()] : std::nullopt);
  }
  return result;
}

Expr Lowering::integer(std::size_t i, Expr absent) const {
  if (!has(i)) {
    return absent;
  }
  const Argument& argument = node_.arguments[i];
  if (const auto* value = std::get_if<Expr>(&argument)) {
    return *value;
  }
  if (const auto* value = std::get_if<ir::ValueId>(&argument)) {
    return std::get<ir::SymIntMeta>(graph_.value(*value).meta).expr;
  }
  if (const auto* value = std::get_if<bool>(&argument)) {
    return *value ? 1 : 0;
  }
  if (std::holds_alternative<ir::RealExpr>(argument)) {
    refuse_varying();
  }
  return static_cast<std::int64_t>(std::get<double>(argument));
}

std::vector<Expr> Lowering::integers(std::size_t i) const {
  if (!has(i)) {
    return {};
  }
  const Argument& argument = node_.arguments[i];
  if (const auto* list = std::get_if<std::vector<Expr>>(&argument)) {
    return *list;
  }
  if (const auto* list = std::get_if<std::vector<ir::ValueId>>(&argument)) {
    std::vector<Expr> result;
    for (const ir::ValueId value : *list) {
      result.push_back(std::get<ir::SymIntMeta>(graph_.value(value).meta).expr);
    }
    return result;
  }
  return {integer(i)};
}

double Lowering::real(std::size_t i, double absent) const {
  if (!has(i)) {
    return absent;
  }
  const Argument& argument = node_.arguments[i];
  if (const auto* value = std::get_if<double>(&argument)) {
    return *value;
  }
  if (varies(i)) {
    refuse_varying();
  }
  return static_cast<double>(*integer(i).constant());
}

void Lowering::refuse_varying() const {
  throw Error(ErrorCode::kUnsupported,
              node_.target + ": a symbolic number where a plain one is needed");
}

bool Lowering::varies(std::size_t i) const {
  const Argument& argument = node_.arguments.at(i);
  return std::holds_alternative<ir::RealExpr>(argument) ||
         (!std::holds_alternative<double>(argument) && !integer(i).is_constant());
}

bool Lowering::flag(std::size_t i, bool absent) const {
  if (!has(i)) {
    return absent;
  }
  const auto* value = std::get_if<bool>(&node_.arguments[i]);
  return value != nullptr ? *value : real(i) != 0;
}

std::string_view Lowering::text(std::size_t i) const {
  const auto* value = has(i) ? std::get_if<std::string>(&node_.arguments[i]) : nullptr;
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

std::vector<bool> Lowering::flags(std::size_t i) const {
  const auto* list = has(i) ? std::get_if<std::vector<bool>>(&node_.arguments[i]) : nullptr;
  return list != nullptr ? *list : std::vector<bool>();
}

std::optional<std::size_t> Lowering::dim(std::size_t i,
                                         std::size_t rank,
                                         std::int64_t absent) const {
  const std::optional<std::int64_t> value = integer(i, absent).constant();
  return value ? std::optional(wrap(*value, rank)) : std::nullopt;
}

std::vector<std::size_t> Lowering::dims(std::size_t i, std::size_t rank) const {
  std::vector<std::size_t> result;
  for (const Expr& dim : integers(i)) {
    if (rank > 0) {
      result.push_back(wrap(dim.constant().value(), rank));
    }
  }
  if (result.empty()) {
    result.resize(rank);
    std::iota(result.begin(), result.end(), std::size_t{0});
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace kiln::codegen

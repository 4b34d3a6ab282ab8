#include "expansion.hpp"

#include <numeric>
#include <utility>

#include "../geometry.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

/// Sizes that tensors are broadcast to.
std::vector<Expr> broadcast(std::span<const TensorMeta* const> operands) {
  std::vector<Expr> sizes;
  for (const TensorMeta* operand : operands) {
    if (operand->sizes.size() > sizes.size()) {
      sizes.insert(sizes.begin(), operand->sizes.size() - sizes.size(), Expr(1));
    }
    const std::size_t added = sizes.size() - operand->sizes.size();
    for (std::size_t i = 0; i < operand->sizes.size(); ++i) {
      if (sizes[added + i] == Expr(1)) {
        sizes[added + i] = operand->sizes[i];
      }
    }
  }
  return sizes;
}

}  // namespace

const TensorMeta& Term::meta() const {
  return expansion->graph().tensor(id);
}

Expansion::Expansion(Graph& graph, const Node& node, std::vector<std::optional<TensorMeta>> results)
    : graph_(graph),
      node_(node),
      results_(std::move(results)),
      writer_(graph, [](const Argument& argument) { return argument; }) {
  writer_.set_context(node);
}

bool Expansion::has(std::size_t i) const {
  if (i >= node_.arguments.size() || std::holds_alternative<std::monostate>(node_.arguments[i])) {
    return false;
  }
  const auto* value = std::get_if<ValueId>(&node_.arguments[i]);
  return value == nullptr || value->valid();
}

Term Expansion::raw(std::size_t i) {
  return {this, std::get<ValueId>(node_.arguments[i])};
}

Term Expansion::tensor(std::size_t i) {
  const Term term = raw(i);
  return is_half(term.meta().dtype) ? cast(term, DType::kFloat32) : term;
}

Term Expansion::promoted(std::size_t i) {
  const Term term = raw(i);
  const DType dtype = result(0).dtype;
  if (is_floating_point(term.meta().dtype) || !is_floating_point(dtype)) {
    return tensor(i);
  }
  const Term rounded = cast(term, dtype);
  return is_half(dtype) ? cast(rounded, DType::kFloat32) : rounded;
}

std::vector<Term> Expansion::tensors(std::size_t i) {
  std::vector<Term> terms;
  for_each_value(node_.arguments[i], [&](ValueId id) { terms.push_back({this, id}); });
  return terms;
}

std::int64_t Expansion::constant(const Expr& number) const {
  const std::optional<std::int64_t> value = number.constant();
  if (!value) {
    refuse_size(number.to_string());
  }
  return *value;
}

void Expansion::refuse_size(const std::string& number) const {
  throw Error(ErrorCode::kUnsupported,
              node_.target + " takes a number that depends on a size, " + number);
}

double Expansion::number(std::size_t i, double absent) const {
  if (!has(i)) {
    return absent;
  }
  const Argument& argument = node_.arguments[i];
  if (const auto* real = std::get_if<double>(&argument)) {
    return *real;
  }
  if (const auto* flag = std::get_if<bool>(&argument)) {
    return *flag ? 1 : 0;
  }
  if (const auto* varying = std::get_if<RealExpr>(&argument)) {
    refuse_size(varying->to_string());
  }
  return static_cast<double>(constant(std::get<Expr>(argument)));
}

Expr Expansion::integer(std::size_t i, Expr absent) const {
  return has(i) ? std::get<Expr>(node_.arguments[i]) : std::move(absent);
}

std::vector<Expr> Expansion::integers(std::size_t i) const {
  return has(i) ? std::get<std::vector<Expr>>(node_.arguments[i]) : std::vector<Expr>();
}

bool Expansion::flag(std::size_t i, bool absent) const {
  return has(i) ? std::get<bool>(node_.arguments[i]) : absent;
}

std::string_view Expansion::text(std::size_t i) const {
  return has(i) ? std::string_view(std::get<std::string>(node_.arguments[i])) : std::string_view();
}

std::size_t Expansion::dimension(std::size_t i, std::size_t rank, std::int64_t absent) const {
  const std::int64_t given = constant(integer(i, absent));
  const std::int64_t wrapped = given < 0 ? given + static_cast<std::int64_t>(rank) : given;
  return static_cast<std::size_t>(wrapped);
}

std::vector<std::size_t> Expansion::dimensions(std::size_t i, std::size_t rank) const {
  std::vector<std::size_t> result;
  for (const Expr& given : integers(i)) {
    const std::int64_t dimension = constant(given);
    const std::int64_t from_front =
        dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension;
    result.push_back(static_cast<std::size_t>(from_front));
  }
  if (result.empty()) {
    result.resize(rank);
    std::iota(result.begin(), result.end(), std::size_t{0});
  }
  return result;
}

Term Expansion::compute(std::string target, std::vector<Argument> arguments, TensorMeta meta) {
  return {this, writer_.compute(std::move(target), std::move(arguments), std::move(meta))};
}

Term Expansion::view(std::string target, std::vector<Argument> arguments, TensorMeta meta) {
  return {this, writer_.view(std::move(target), std::move(arguments), std::move(meta))};
}

Term Expansion::pointwise(std::string target,
                          std::vector<Argument> arguments,
                          std::optional<DType> dtype) {
  std::vector<const TensorMeta*> operands;
  bool real_number = false;
  for (const Argument& argument : arguments) {
    for_each_value(argument, [&](ValueId id) { operands.push_back(&graph_.tensor(id)); });
    real_number = real_number || std::holds_alternative<double>(argument) ||
                  std::holds_alternative<RealExpr>(argument);
  }
  TensorMeta meta;
  meta.dtype = dtype.value_or(promote(operands));
  if (!dtype && real_number && !is_floating_point(meta.dtype)) {
    meta.dtype = DType::kFloat32;
  }
  meta.device = operands.front()->device;
  meta.sizes = broadcast(operands);
  meta.strides = pointwise_strides(meta.sizes, operands);
  return compute(std::move(target), std::move(arguments), std::move(meta));
}

Term Expansion::full(std::vector<Expr> sizes, double value, DType dtype, Device device) {
  const Argument number =
      is_floating_point(dtype) ? Argument(value) : Argument(Expr(static_cast<std::int64_t>(value)));
  return full_of(std::move(sizes), number, dtype, device);
}

Term Expansion::full_of(std::vector<Expr> sizes, Argument value, DType dtype, Device device) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.device = device;
  meta.strides = contiguous_strides(sizes);
  meta.sizes = sizes;
  return compute("aten.full.default",
                 {std::move(sizes), std::move(value), dtype, Layout::kStrided, device, false},
                 std::move(meta));
}

Term Expansion::cast(Term term, DType dtype) {
  TensorMeta meta = term.meta();
  if (meta.dtype == dtype) {
    return term;
  }
  meta.dtype = dtype;
  meta.strides = strides_like(meta);
  meta.offset = 0;
  meta.requires_grad = false;
  return compute("aten._to_copy.default",
                 {term.id,
                  dtype,
                  std::monostate(),
                  std::monostate(),
                  std::monostate(),
                  false,
                  std::monostate()},
                 std::move(meta));
}

Term Expansion::like(Term term, const TensorMeta& meta) {
  if (term.meta().sizes != meta.sizes) {
    throw Error(ErrorCode::kInternal,
                "the expansion of " + node_.target + " has another shape than was recorded");
  }
  term = cast(term, meta.dtype);
  return {this, is_dense(meta) ? writer_.laid_out(term.id, meta) : term.id};
}

}  // namespace kiln::ir

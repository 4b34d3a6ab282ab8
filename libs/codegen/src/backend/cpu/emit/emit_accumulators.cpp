// Accumulators of reductions: vectors, several of each where a row is reduced.

#include <algorithm>
#include <limits>

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::DType;

Scalar neutral_of(Reduction reduction, DType dtype) {
  Scalar constant{.op = ScalarOp::kConstant, .dtype = dtype};
  const double infinity = std::numeric_limits<double>::infinity();
  const int bits = 8 * ir::size_of(dtype);
  const std::int64_t largest =
      dtype == DType::kUInt8 ? 255 : static_cast<std::int64_t>(~0ULL >> (65 - bits));
  switch (reduction) {
    case Reduction::kSum: break;
    case Reduction::kProduct: constant.real = 1, constant.integer = 1; break;
    case Reduction::kMaximum:
      constant.real = -infinity, constant.integer = dtype == DType::kUInt8 ? 0 : -largest - 1;
      break;
    case Reduction::kMinimum: constant.real = infinity, constant.integer = largest; break;
    case Reduction::kAny: break;
    case Reduction::kAll: constant.integer = 1; break;
  }
  return constant;
}

std::string KernelEmitter::accumulator(std::size_t reduce, int copy) {
  return "a" + std::to_string(reduce) + "_" + std::to_string(copy);
}

int KernelEmitter::copies(int phase) {
  const bool accumulates = std::ranges::any_of(kernel_.reduces, [&](const auto& reduce) {
    return reduce.phase == phase && reduce.result != IterationDomain::kColumn;
  });
  return accumulates ? 4 : interleave_factor(roots(phase), phase);
}

int KernelEmitter::interleave_factor(const std::vector<ScalarId>& values, int phase) {
  if (!interleaves_) {
    return 1;
  }
  int cost = 0, function_cost = 0;
  std::set<ScalarId> seen;
  const auto visit = [&](auto&& self, ScalarId id) -> void {
    if (depths_.of(id) < LoopDepth::kInner || is_kept(id, phase) || !seen.insert(id).second) {
      return;
    }
    const Scalar& scalar = context_.scalar(id);
    cost += operation_cost(scalar.op);
    function_cost = std::max(function_cost, operation_cost(scalar.op));
    for (const ScalarId operand : scalar.operands) {
      self(self, operand);
    }
  };
  for (const ScalarId value : values) {
    visit(visit, value);
  }
  const bool is_worth_it =
      function_cost >= tuning_.min_function_cost && cost <= tuning_.max_interleaved_cost;
  return is_worth_it ? tuning_.interleave_factor : 1;
}

void KernelEmitter::declare_accumulators(std::size_t number, int copies) {
  const LoopNest::Reduce& reduce = kernel_.reduces[number];
  const std::string neutral = code("splat($)", literal(neutral_of(reduce.reduction, reduce.dtype)));
  std::string declarators;
  for (int copy = 0; copy < copies; ++copy) {
    declarators += code("$$ = $", copy == 0 ? "" : ", ", accumulator(number, copy), neutral);
  }
  body_.line("$ $;", vector_type(reduce.dtype), declarators);
}

std::string KernelEmitter::combine(Reduction reduction,
                                   const std::string& a,
                                   const std::string& b) {
  switch (reduction) {
    case Reduction::kSum: return a + " + " + b;
    case Reduction::kProduct: return a + " * " + b;
    case Reduction::kAny: return a + " | " + b;
    case Reduction::kAll: return a + " & " + b;
    case Reduction::kMaximum: return code("maximum($, $)", a, b);
    case Reduction::kMinimum: return code("minimum($, $)", a, b);
  }
  return {};
}

std::string KernelEmitter::reduce_lanes(const LoopNest::Reduce& reduce, const std::string& vector) {
  const auto use = [&](const char* name) { return code("$($)", name, vector); };
  switch (reduce.reduction) {
    case Reduction::kSum: return use("reduce_add");
    case Reduction::kProduct: return use("reduce_multiply");
    case Reduction::kMaximum: return use("reduce_maximum");
    case Reduction::kMinimum: return use("reduce_minimum");
    case Reduction::kAny: return use("any");
    case Reduction::kAll: return use("all");
  }
  return {};
}

std::string KernelEmitter::all_accumulators(std::size_t number, int copies) {
  std::string total = accumulator(number, 0);
  for (int copy = 1; copy < copies; ++copy) {
    total = combine(kernel_.reduces[number].reduction, total, accumulator(number, copy));
  }
  return total;
}

ScalarId KernelEmitter::reduced(std::size_t number) const {
  // The pool holds it if anybody uses it.
  for (std::size_t i = 0; i < context_.program.pool.size(); ++i) {
    const Scalar& scalar = context_.program.pool[ScalarId(i)];
    if (scalar.op == ScalarOp::kReduced && scalar.integer == static_cast<std::int64_t>(number) &&
        scalar.dtype == kernel_.reduces[number].dtype) {
      return ScalarId(i);
    }
  }
  return {};
}

}  // namespace kiln::codegen

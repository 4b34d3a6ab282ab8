// Pure scalar expressions: what one element of a tensor is.
//
// Expressions live in a pool and are shared: building the same one twice gives the same id, so
// common subexpressions are found as they are made.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kiln/base/id.hpp"
#include "kiln/ir/types.hpp"
#include "loop/index.hpp"

namespace kiln::codegen {

struct Tensor;
using TensorId = Id<Tensor>;

/// What a scalar does. Arithmetic is in the scalar's type; operands have that type too, but for
/// comparisons (which give bool), casts, `kWhere`'s condition and reads.
enum class ScalarOp : std::uint8_t {
  kConstant,
  kIndex,    ///< The value of an index, as an int64.
  kRead,     ///< An element of a tensor.
  kLoad,     ///< In a kernel: an element of one of its operands.
  kReduced,  ///< In a kernel: the result of one of its reductions.
  kCast,
  kWhere,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kTruncateDivide,  ///< Of integers.
  kFmod,            ///< Of integers: what kTruncateDivide leaves.
  kCheckIndex,  ///< An index if it is from 0 to below the second operand; else the kernel fails.
  kMaximum,
  kMinimum,  ///< NaN if either is.
  kPower,
  kAnd,
  kOr,
  kXor,
  kNot,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kNegate,
  kAbsolute,
  kSign,
  kReciprocal,
  kSqrt,
  kRsqrt,
  kFloor,
  kCeil,
  kRound,
  kTruncate,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTanh,
  kErf,
  kGelu,  ///< x times the chance that a normal variable is below it.
  kSigmoid,
  kDivideByOnePlusExp,  ///< x / (1 + e^y). Where y is NaN, x is too.
  kIsNan,
  kRoundToHalf,      ///< A float as float16 holds it.
  kRoundToBFloat16,  ///< A float as bfloat16 holds it.
  kFence,            ///< x, which is not contracted with the sum that it is added to.
  kLast = kFence,
};

/// "add", "exp", …
[[nodiscard]] std::string_view to_string(ScalarOp op);

/// The operator of C that `op` is, blanks round it: " + "; empty if it is none.
[[nodiscard]] std::string_view infix_operator(ScalarOp op);

/// Whether `op` compares its operands, and so gives a bool.
[[nodiscard]] constexpr bool is_comparison(ScalarOp op) {
  return op >= ScalarOp::kEqual && op <= ScalarOp::kLessEqual;
}

/// Vector operations it takes to compute one element of `op`, roughly.
[[nodiscard]] int operation_cost(ScalarOp op);

/// The type that elements of `dtype` are computed in: float for half and bfloat16.
[[nodiscard]] ir::DType compute_type(ir::DType dtype);

/// The type that `op` rounds a float to; nothing if it is not such an op.
[[nodiscard]] std::optional<ir::DType> rounded_type(ScalarOp op);

/// One expression. Which fields count depends on `op`.
struct Scalar {
  ScalarOp op = ScalarOp::kConstant;
  ir::DType dtype = ir::DType::kFloat32;  ///< A compute type.
  std::vector<ScalarId> operands = {};
  double real = 0;  ///< kConstant of a floating type.
  std::int64_t integer =
      0;  ///< kConstant of an integer type or bool; kLoad: the operand; kReduced: which.
  TensorId tensor = {};             ///< kRead.
  std::vector<Index> indices = {};  ///< kRead: one a dim; kLoad, kIndex: one, in elements.

  bool operator==(const Scalar& other) const;
};

/// Owns expressions.
class ScalarPool {
 public:
  [[nodiscard]] const Scalar& operator[](ScalarId id) const { return scalars_[id.index()]; }
  [[nodiscard]] std::size_t size() const { return scalars_.size(); }

  /// Adds what is not there yet. Folds casts to the same type.
  ScalarId add(Scalar scalar);

  ScalarId constant(double value, ir::DType dtype);
  ScalarId integer(std::int64_t value, ir::DType dtype);
  ScalarId index(Index value);
  ScalarId read(TensorId tensor, std::vector<Index> indices, ir::DType dtype);
  ScalarId cast(ScalarId value, ir::DType dtype);
  ScalarId where(ScalarId condition, ScalarId yes, ScalarId no);
  ScalarId unary(ScalarOp op, ScalarId a);
  ScalarId binary(ScalarOp op, ScalarId a, ScalarId b);
  ScalarId compare(ScalarOp op, ScalarId a, ScalarId b);

 private:
  std::vector<Scalar> scalars_;
  std::unordered_multimap<std::size_t, ScalarId> by_hash_;
};

}  // namespace kiln::codegen

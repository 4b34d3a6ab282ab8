#include "symbolic_operators.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

using Arguments = std::vector<c10::IValue>;
using Operator = std::function<c10::IValue(const Arguments&)>;

double number(const c10::IValue& value) {
  if (value.isBool()) {
    return value.toBool() ? 1.0 : 0.0;
  }
  return value.toScalar().toDouble();
}

bool is_integral(const c10::IValue& value) {
  return value.isInt() || value.isBool();
}

std::int64_t integer(const c10::IValue& value) {
  return value.isBool() ? static_cast<std::int64_t>(value.toBool()) : value.toInt();
}

// Python's arithmetic: integers stay integers.
template <class Integers, class Doubles>
Operator arithmetic(Integers integers, Doubles doubles) {
  return [=](const Arguments& in) -> c10::IValue {
    if (is_integral(in.at(0)) && is_integral(in.at(1))) {
      return integers(integer(in.at(0)), integer(in.at(1)));
    }
    return doubles(number(in.at(0)), number(in.at(1)));
  };
}

template <class Compare>
Operator comparison(Compare compare) {
  return [=](const Arguments& in) -> c10::IValue {
    if (is_integral(in.at(0)) && is_integral(in.at(1))) {
      return compare(integer(in.at(0)), integer(in.at(1)));
    }
    return compare(number(in.at(0)), number(in.at(1)));
  };
}

std::int64_t divide_down(std::int64_t a, std::int64_t b) {
  if (b == 0) {
    throw Error(ErrorCode::kInvalidArgument, "the program divides a size by zero");
  }
  const std::int64_t quotient = a / b;
  return quotient - static_cast<std::int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

c10::IValue power(const Arguments& in) {
  if (!is_integral(in.at(0)) || !is_integral(in.at(1)) || integer(in.at(1)) < 0) {
    return std::pow(number(in.at(0)), number(in.at(1)));
  }
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < integer(in.at(1)); ++i) {
    result *= integer(in.at(0));
  }
  return result;
}

c10::IValue truncated(const Arguments& in) {
  return is_integral(in.at(0)) ? integer(in.at(0)) : static_cast<std::int64_t>(number(in.at(0)));
}

std::int64_t shift(std::int64_t a, std::int64_t b, bool left) {
  if (b < 0 || b > 62) {
    throw Error(ErrorCode::kInvalidArgument,
                "the program shifts a size by " + std::to_string(b) + " bits");
  }
  return left ? a * (std::int64_t{1} << b) : divide_down(a, std::int64_t{1} << b);
}

c10::IValue assert_scalar(const Arguments& in) {
  if (number(in.at(0)) == 0.0) {
    throw Error(ErrorCode::kInvalidArgument,
                "the sample inputs break an assertion of the program: " + in.at(1).toStringRef());
  }
  return {};
}

c10::IValue nothing(const Arguments&) {
  return {};
}

const std::map<std::string, Operator>& operators() {
  static const std::map<std::string, Operator> kOperators = {
      {"_operator.add", arithmetic(std::plus<>(), std::plus<>())},
      {"_operator.sub", arithmetic(std::minus<>(), std::minus<>())},
      {"_operator.mul", arithmetic(std::multiplies<>(), std::multiplies<>())},
      {"_operator.floordiv",
       arithmetic(divide_down, [](double a, double b) { return std::floor(a / b); })},
      {"_operator.mod",
       arithmetic([](std::int64_t a, std::int64_t b) { return a - divide_down(a, b) * b; },
                  [](double a, double b) { return a - std::floor(a / b) * b; })},
      {"_operator.truediv",
       [](const Arguments& in) { return c10::IValue(number(in.at(0)) / number(in.at(1))); }},
      {"_operator.pow", power},
      {"_operator.neg",
       [](const Arguments& in) {
         return is_integral(in.at(0)) ? c10::IValue(-integer(in.at(0)))
                                      : c10::IValue(-number(in.at(0)));
       }},
      {"_operator.pos", [](const Arguments& in) { return in.at(0); }},
      {"_operator.lshift",
       [](const Arguments& in) {
         return c10::IValue(shift(in.at(0).toInt(), in.at(1).toInt(), true));
       }},
      {"_operator.rshift",
       [](const Arguments& in) {
         return c10::IValue(shift(in.at(0).toInt(), in.at(1).toInt(), false));
       }},
      {"_operator.eq", comparison(std::equal_to<>())},
      {"_operator.ne", comparison(std::not_equal_to<>())},
      {"_operator.lt", comparison(std::less<>())},
      {"_operator.le", comparison(std::less_equal<>())},
      {"_operator.gt", comparison(std::greater<>())},
      {"_operator.ge", comparison(std::greater_equal<>())},
      {"_operator.and_",
       [](const Arguments& in) {
         return in.at(0).isBool() && in.at(1).isBool()
                    ? c10::IValue(in.at(0).toBool() && in.at(1).toBool())
                    : c10::IValue(integer(in.at(0)) & integer(in.at(1)));
       }},
      {"_operator.or_",
       [](const Arguments& in) {
         return in.at(0).isBool() && in.at(1).isBool()
                    ? c10::IValue(in.at(0).toBool() || in.at(1).toBool())
                    : c10::IValue(integer(in.at(0)) | integer(in.at(1)));
       }},
      {"math.trunc", truncated},
      {"torch.sym_int", truncated},
      {"torch.sym_float", [](const Arguments& in) { return c10::IValue(number(in.at(0))); }},
      {"torch.sym_not", [](const Arguments& in) { return c10::IValue(number(in.at(0)) == 0.0); }},
      {"torch.sym_ite",
       [](const Arguments& in) { return number(in.at(0)) != 0.0 ? in.at(1) : in.at(2); }},
      {"torch.sym_max",
       arithmetic([](std::int64_t a, std::int64_t b) { return std::max(a, b); },
                  [](double a, double b) { return std::max(a, b); })},
      {"torch.sym_min",
       arithmetic([](std::int64_t a, std::int64_t b) { return std::min(a, b); },
                  [](double a, double b) { return std::min(a, b); })},
      {"torch.sym_sqrt",
       [](const Arguments& in) { return c10::IValue(std::sqrt(number(in.at(0)))); }},
      {"torch._sym_sqrt",
       [](const Arguments& in) { return c10::IValue(std::sqrt(number(in.at(0)))); }},
      {"torch.ops.aten.sym_size.int",
       [](const Arguments& in) { return c10::IValue(in.at(0).toTensor().size(in.at(1).toInt())); }},
      {"torch.ops.aten.sym_stride.int",
       [](const Arguments& in) {
         return c10::IValue(in.at(0).toTensor().stride(in.at(1).toInt()));
       }},
      {"torch.ops.aten.sym_numel.default",
       [](const Arguments& in) { return c10::IValue(in.at(0).toTensor().numel()); }},
      {"torch.ops.aten.sym_storage_offset.default",
       [](const Arguments& in) { return c10::IValue(in.at(0).toTensor().storage_offset()); }},
      // Facts about the sample, which every input of the same shape shares.
      {"torch.ops.aten._assert_scalar.default", assert_scalar},
      {"torch.ops.aten._assert_tensor_metadata.default", nothing},
      {"torch.ops.aten.sym_constrain_range_for_size.default", nothing},
      {"torch.ops.aten.sym_constrain_range.default", nothing},
  };
  return kOperators;
}

}  // namespace

std::optional<c10::IValue> evaluate_symbolic(const std::string& target,
                                             const Arguments& arguments) {
  const auto found = operators().find(target);
  if (found == operators().end()) {
    return std::nullopt;
  }
  return found->second(arguments);
}

}  // namespace kiln::exporter

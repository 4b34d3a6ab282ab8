// The run-time arguments of a hand-written kernel, set by the names that the kernel reads them by.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/ir/expr.hpp"

namespace kiln::codegen {

/// `Params` is the struct of kernels/*_params.hpp that the kernel takes its arguments for; all of
/// its fields have 64 bits.
///
///     KernelArguments<GemmParams> arguments;
///     arguments[arguments.params.m] = layout.m;
template <class Params>
class KernelArguments {
 public:
  /// Names the fields.
  const Params params = {};

  /// The argument that is read as `field`, which is one of `params`.
  [[nodiscard]] std::optional<ir::Expr>& operator[](const long long& field) {
    return values_[index_of(&field)];
  }

  /// Sets a field that does not depend on sizes.
  void set(const double& field, double value) {
    values_[index_of(&field)] = ir::Expr(std::bit_cast<std::int64_t>(value));
  }

  /// All arguments in the order of the fields. Throws `Error` if one was not set.
  [[nodiscard]] std::vector<ir::Expr> take() && {
    std::vector<ir::Expr> result;
    for (std::optional<ir::Expr>& value : values_) {
      if (!value) {
        throw Error(ErrorCode::kInternal,
                    "argument " + std::to_string(result.size()) + " of a kernel is not set");
      }
      result.push_back(*std::move(value));
    }
    return result;
  }

 private:
  static constexpr std::size_t kFieldBytes = 8;
  static_assert(sizeof(Params) % kFieldBytes == 0);

  [[nodiscard]] std::size_t index_of(const void* field) const {
    const auto* const begin = reinterpret_cast<const std::byte*>(&params);
    return static_cast<std::size_t>(static_cast<const std::byte*>(field) - begin) / kFieldBytes;
  }

  std::vector<std::optional<ir::Expr>> values_ =
      std::vector<std::optional<ir::Expr>>(sizeof(Params) / kFieldBytes);
};

}  // namespace kiln::codegen

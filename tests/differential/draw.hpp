// Random arguments for operators: shapes, types, layouts and values that kernels get wrong.

#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <vector>

namespace kiln::differential {

using Tensors = std::vector<at::Tensor>;

/// What the elements of a drawn tensor may be.
enum class Values {
  kAny,       ///< Infinities, NaN, signed zeros, subnormals and the ends of integer types included.
  kFinite,    ///< Moderate numbers of either sign, and zeros.
  kPositive,  ///< Moderate numbers above zero.
};

/// What one case is about; everything else is drawn.
struct Profile {
  at::ScalarType dtype = at::kFloat;
  std::size_t shape = 0;   ///< Which of `shapes()`.
  std::size_t layout = 0;  ///< Where to begin among the layouts.
  bool mixed = false;      ///< Further operands have types of their own.
  std::uint64_t seed = 0;
};

/// Scalars, vectors, empty ones, ones among the sizes, odd tails, images.
[[nodiscard]] const std::vector<std::vector<std::int64_t>>& shapes();

/// Draws a case's arguments. The same profile gives the same arguments, so that a case can run
/// once by itself and once in a trace, on the tensors of the first time.
class Draw {
 public:
  explicit Draw(const Profile& profile) : Draw(profile, nullptr) {}
  /// Hands out `made`, in order, instead of making tensors.
  Draw(const Profile& profile, const Tensors* made);

  /// The case's own shape and type, in some layout.
  at::Tensor x(Values values = Values::kAny);
  /// The same shape and type, in another layout.
  at::Tensor like(Values values = Values::kAny);
  /// A tensor that broadcasts with x: of its shape, with ones in it, of fewer dims, or of none.
  at::Tensor other(Values values = Values::kAny);
  /// A tensor that can be expanded to x.
  at::Tensor narrower(at::ScalarType dtype, Values values = Values::kAny);
  at::Tensor of(const std::vector<std::int64_t>& sizes,
                at::ScalarType dtype,
                Values values = Values::kAny);
  /// Integers from `first` up to, not including, `end`.
  at::Tensor integers(const std::vector<std::int64_t>& sizes,
                      std::int64_t first,
                      std::int64_t end,
                      at::ScalarType dtype = at::kLong);

  at::Scalar number();
  std::int64_t below(std::int64_t end);
  bool coin() { return below(2) == 1; }
  /// A dim of x, counted from either end.
  std::int64_t dim();
  /// Some dims of x; maybe none.
  std::vector<std::int64_t> dims();

  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return shapes()[profile_.shape]; }
  [[nodiscard]] at::ScalarType dtype() const { return profile_.dtype; }
  [[nodiscard]] bool floating() const { return at::isFloatingType(profile_.dtype); }
  [[nodiscard]] const Tensors& made() const { return tensors_; }

 private:
  at::Tensor next(const std::function<at::Tensor()>& make);
  at::Tensor elements(const std::vector<std::int64_t>& sizes, at::ScalarType dtype, Values values);
  at::Tensor laid_out(const std::vector<std::int64_t>& sizes,
                      at::ScalarType dtype,
                      Values values,
                      std::size_t layout);

  Profile profile_;
  const Tensors* given_;
  Tensors tensors_;
  std::mt19937_64 arguments_;
  std::mt19937_64 values_;
  std::size_t layouts_;
};

}  // namespace kiln::differential

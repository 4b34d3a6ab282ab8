#include "draw.hpp"

#include <array>
#include <limits>

namespace kiln::differential {

using Sizes = std::vector<std::int64_t>;

const std::vector<Sizes>& shapes() {
  static const std::vector<Sizes> kShapes = {{5, 7},
                                             {33},
                                             {},
                                             {2, 3, 5},
                                             {0},
                                             {1},
                                             {4, 1},
                                             {2, 6, 3, 3},
                                             {3, 0, 2},
                                             {1, 9},
                                             {2, 1, 17},
                                             {64, 3},
                                             {3, 1, 2, 5},
                                             {16}};
  return kShapes;
}

Draw::Draw(const Profile& profile, const Tensors* made)
    : profile_(profile),
      given_(made),
      arguments_(profile.seed),
      values_(profile.seed * 31 + 7),
      layouts_(profile.layout) {}

at::Tensor Draw::next(const std::function<at::Tensor()>& make) {
  tensors_.push_back(given_ != nullptr ? given_->at(tensors_.size()) : make());
  return tensors_.back();
}

std::int64_t Draw::below(std::int64_t end) {
  return static_cast<std::int64_t>(arguments_() % static_cast<std::uint64_t>(end));
}

namespace {

double special_real(at::ScalarType dtype, std::uint64_t which) {
  const bool wide = dtype == at::kDouble;
  const double largest = dtype == at::kHalf ? 65504
                         : wide             ? std::numeric_limits<double>::max()
                                            : std::numeric_limits<float>::max();
  const double tiny = dtype == at::kHalf ? 6e-8 : wide ? 5e-324 : 1e-45;
  const std::array<double, 14> values = {std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity(),
                                         std::numeric_limits<double>::quiet_NaN(),
                                         0.0,
                                         -0.0,
                                         tiny,
                                         -tiny,
                                         largest,
                                         -largest,
                                         1,
                                         -1,
                                         0.5,
                                         2.5,
                                         -1.5};
  return values[which % values.size()];
}

std::int64_t special_integer(at::ScalarType dtype, std::uint64_t which) {
  const int bits = static_cast<int>(at::elementSize(dtype)) * 8;
  const std::int64_t largest =
      dtype == at::kByte ? 255 : static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
  const std::int64_t smallest = dtype == at::kByte ? 0 : -largest - 1;
  const std::array<std::int64_t, 6> values = {
      largest, smallest, 0, 1, dtype == at::kByte ? 254 : -1, 2};
  return values[which % values.size()];
}

}  // namespace

at::Tensor Draw::elements(const Sizes& sizes, at::ScalarType dtype, Values values) {
  const at::Tensor result = at::empty(sizes, dtype);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const bool special = values == Values::kAny && values_() % 5 == 0;
    const double real = uniform(values_);
    if (at::isFloatingType(dtype)) {
      // Most are near one, some are large or small.
      const double magnitude = values_() % 8 == 0 && values != Values::kPositive ? 20 : 2;
      const double moderate = values_() % 16 == 0 ? 0.0 : real * magnitude;
      reals.push_back(special                       ? special_real(dtype, values_())
                      : values == Values::kPositive ? std::abs(real) * magnitude + 0.25
                                                    : moderate);
      continue;
    }
    std::int64_t integer = static_cast<std::int64_t>(real * 9);
    if (special) {
      integer = special_integer(dtype, values_());
    } else if (values == Values::kPositive) {
      integer = std::abs(integer) + 1;
    } else if (dtype == at::kByte) {
      integer = std::abs(integer);
    }
    integers.push_back(dtype == at::kBool ? integer & 1 : integer);
  }
  const at::Tensor flat = at::isFloatingType(dtype) ? at::tensor(reals, at::kDouble).to(dtype)
                                                    : at::tensor(integers, at::kLong).to(dtype);
  return result.copy_(flat.view(sizes));
}

at::Tensor Draw::laid_out(const Sizes& sizes,
                          at::ScalarType dtype,
                          Values values,
                          std::size_t layout) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  Sizes inner = sizes;
  switch (layout % 6) {
    case 1:  // Transposed.
      if (rank >= 2) {
        std::swap(inner[0], inner[inner.size() - 1]);
        return elements(inner, dtype, values).transpose(0, rank - 1);
      }
      break;
    case 2:  // Every other element, from the second on.
      if (rank >= 1) {
        inner.back() = inner.back() * 2 + 1;
        return elements(inner, dtype, values).slice(rank - 1, 1, inner.back(), 2);
      }
      break;
    case 3:  // Channels last.
      if (rank == 4) {
        return elements(sizes, dtype, values).contiguous(at::MemoryFormat::ChannelsLast);
      }
      break;
    case 4:  // Not aligned to a vector.
      inner.insert(inner.begin(), 3);
      return elements(inner, dtype, values).select(0, 1);
    case 5:  // One row, over and over.
      if (rank >= 2) {
        inner[0] = 1;
        return elements(inner, dtype, values).expand(sizes);
      }
      break;
    default: break;
  }
  return elements(sizes, dtype, values);
}

at::Tensor Draw::of(const Sizes& sizes, at::ScalarType dtype, Values values) {
  const std::size_t layout = layouts_++;
  return next([&] { return laid_out(sizes, dtype, values, layout); });
}

at::Tensor Draw::x(Values values) {
  return of(sizes(), profile_.dtype, values);
}

at::Tensor Draw::like(Values values) {
  return of(sizes(), profile_.dtype, values);
}

at::Tensor Draw::narrower(at::ScalarType dtype, Values values) {
  Sizes result = sizes();
  switch (below(5)) {
    case 0: result.clear(); break;
    case 1:
      if (!result.empty()) {
        result.erase(result.begin());
      }
      break;
    case 2:
      if (!result.empty()) {
        result[static_cast<std::size_t>(below(static_cast<std::int64_t>(result.size())))] = 1;
      }
      break;
    default: break;
  }
  return of(result, dtype, values);
}

at::Tensor Draw::other(Values values) {
  constexpr std::array kTypes = {at::kFloat,
                                 at::kInt,
                                 at::kLong,
                                 at::kDouble,
                                 at::kBool,
                                 at::kHalf,
                                 at::kByte,
                                 at::kBFloat16,
                                 at::kShort,
                                 at::kChar};
  const at::ScalarType drawn = kTypes[static_cast<std::size_t>(below(kTypes.size()))];
  return narrower(profile_.mixed ? drawn : profile_.dtype, values);
}

at::Tensor Draw::integers(const Sizes& sizes,
                          std::int64_t first,
                          std::int64_t end,
                          at::ScalarType dtype) {
  const bool strided = below(2) == 1 && !sizes.empty();
  return next([&] {
    Sizes inner = sizes;
    if (strided) {
      inner.back() *= 2;
    }
    const at::Tensor result = at::empty(inner, at::kLong);
    for (std::int64_t i = 0; i < result.numel(); ++i) {
      result.data_ptr<std::int64_t>()[i] =
          first + static_cast<std::int64_t>(values_() % static_cast<std::uint64_t>(end - first));
    }
    return strided ? result.to(dtype).slice(-1, 0, inner.back(), 2) : result.to(dtype);
  });
}

at::Scalar Draw::number() {
  const std::int64_t which = below(6);
  if (!floating() || (which == 0 && profile_.mixed)) {
    constexpr std::array<std::int64_t, 6> kIntegers = {3, 0, 1, 2, 7, 5};
    const std::int64_t value = kIntegers[static_cast<std::size_t>(which)];
    if (profile_.mixed && which == 3) {
      return 1.5;
    }
    return profile_.dtype == at::kBool ? at::Scalar(value % 2 == 1) : at::Scalar(value);
  }
  constexpr std::array<double, 6> kReals = {1.5, -2, 0, 0.1, 3, -0.75};
  return kReals[static_cast<std::size_t>(which)];
}

std::int64_t Draw::dim() {
  const auto rank = static_cast<std::int64_t>(std::max<std::size_t>(sizes().size(), 1));
  const std::int64_t dim = below(rank);
  return coin() ? dim : dim - rank;
}

Sizes Draw::dims() {
  Sizes result;
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    if (coin()) {
      const auto dim = static_cast<std::int64_t>(i);
      result.push_back(coin() ? dim : dim - static_cast<std::int64_t>(sizes().size()));
    }
  }
  return result;
}

}  // namespace kiln::differential

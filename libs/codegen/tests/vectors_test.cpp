// The vectors that kernels are made of (kernels/vector.hpp, kernels/memory.hpp) as ordinary code,
// against plain loops. CMake compiles this file for vectors of 4 and of 16 floats.

#pragma GCC diagnostic ignored "-Wpsabi"  // Vectors wider than a register are passed here, too.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/cpu/kernels/memory.hpp"
#include "kiln/testing/catch2.hpp"

#define KILN_TEXT_OF(x) #x
#define KILN_TEXT(x) KILN_TEXT_OF(x)
// A test case per number of lanes: names must differ.
#define VECTOR_TEST(name) TEST_CASE(name ", " KILN_TEXT(KILN_LANES) " lanes", "[codegen][vectors]")

namespace kiln::codegen {
namespace {

// Calls `check` with a zero of each type whose elements are computed as they are stored.
template <class Check>
void for_each_type(const Check& check) {
  check(float{});
  check(double{});
  check(Index{});
  check(int{});
  check(short{});
  check(static_cast<signed char>(0));
  check(static_cast<unsigned char>(0));
}

// Small integers in no order, of either sign if `T` has one. None is 99, see below.
template <class T>
std::vector<T> elements(std::size_t count) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(i * 37 % 61) - (std::is_signed_v<T> ? 30 : 0);
    result[i] = static_cast<T>(value);
  }
  return result;
}

// What stands where nothing may be stored.
constexpr int kUntouched = 99;

template <class T>
std::vector<T> untouched(std::size_t count) {
  return std::vector<T>(count, static_cast<T>(kUntouched));
}

// The lanes of `vector`.
template <class T, class V>
std::vector<T> lanes_of(const V& vector) {
  std::vector<T> result;
  for (int i = 0; i < kLanes; ++i) {
    result.push_back(static_cast<T>(vector[i]));
  }
  return result;
}

// element(i) for each of the first `n` lanes; zeros in the others.
template <class T, class Element>
std::vector<T> expected_lanes(int n, const Element& element) {
  std::vector<T> result(kLanes);
  for (int i = 0; i < n; ++i) {
    result[static_cast<std::size_t>(i)] = element(i);
  }
  return result;
}

VECTOR_TEST("whole vectors and tails are loaded and stored at any element") {
  for_each_type([](auto zero) {
    using T = decltype(zero);
    const std::vector<T> from = elements<T>(2 * kLanes);
    const T* const odd = from.data() + 1;
    CHECK(lanes_of<T>(load(odd)) == expected_lanes<T>(kLanes, [&](int i) { return odd[i]; }));
    for (int n = 0; n <= kLanes; ++n) {
      CAPTURE(sizeof(T), n);
      CHECK(lanes_of<T>(load(odd, n)) == expected_lanes<T>(n, [&](int i) { return odd[i]; }));

      std::vector<T> to = untouched<T>(2 * kLanes);
      store(to.data() + 1, load(odd), n);
      std::vector<T> expected = untouched<T>(2 * kLanes);
      std::copy_n(odd, n, expected.begin() + 1);
      CHECK(to == expected);
    }
    std::vector<T> to = untouched<T>(kLanes + 2);
    store(to.data() + 1, load(odd));
    CHECK(std::equal(odd, odd + kLanes, to.begin() + 1));
    CHECK(to.front() == static_cast<T>(kUntouched));
    CHECK(to.back() == static_cast<T>(kUntouched));
    store_one(to.data(), load_one(odd));
    CHECK(to.front() == odd[0]);
  });
}

VECTOR_TEST("strides are kept, forwards and backwards") {
  for_each_type([](auto zero) {
    using T = decltype(zero);
    const std::vector<T> from = elements<T>(8 * kLanes);
    const Index middle = 4 * kLanes;
    for (const Index stride : {-3, -1, 0, 2, 4}) {
      for (const int n : {0, 1, kLanes - 1, kLanes}) {
        CAPTURE(sizeof(T), stride, n);
        const T* const first = from.data() + middle - (stride == 4 ? middle : 0);
        const auto loaded = load_strided(first, stride, n);
        CHECK(lanes_of<T>(loaded) ==
              expected_lanes<T>(n, [&](int i) { return first[i * stride]; }));

        std::vector<T> to = untouched<T>(from.size());
        std::vector<T> expected = to;
        const Index begin = first - from.data();
        store_strided(to.data() + begin, stride, load(from.data()), n);
        for (int i = 0; i < n; ++i) {
          expected[static_cast<std::size_t>(begin + i * stride)] =
              from[static_cast<std::size_t>(i)];
        }
        CHECK(to == expected);
      }
    }
  });
}

VECTOR_TEST("gathers and scatters access no element beyond their count") {
  for_each_type([](auto zero) {
    using T = decltype(zero);
    const std::vector<T> from = elements<T>(3 * kLanes);
    for (const int n : {0, 1, kLanes - 1, kLanes}) {
      CAPTURE(sizeof(T), n);
      I64 at = {};
      for (int i = 0; i < kLanes; ++i) {
        at[i] = i < n ? i * 7 % (3 * kLanes) : std::numeric_limits<Index>::max() / 64;
      }
      CHECK(lanes_of<T>(gather(from.data(), at, n)) ==
            expected_lanes<T>(n, [&](int i) { return from[static_cast<std::size_t>(at[i])]; }));

      std::vector<T> to = untouched<T>(from.size());
      std::vector<T> expected = to;
      scatter(to.data(), at, load(from.data()), n);
      for (int i = 0; i < n; ++i) {
        expected[static_cast<std::size_t>(at[i])] = from[static_cast<std::size_t>(i)];
      }
      CHECK(to == expected);
    }
  });
}

VECTOR_TEST("elements are repeated") {
  for_each_type([](auto zero) {
    using T = decltype(zero);
    const std::vector<T> from = elements<T>(kLanes);
    for (const int n : {1, kLanes - 1, kLanes}) {
      CHECK(lanes_of<T>(load_repeated<4>(from.data(), n)) ==
            expected_lanes<T>(n, [&](int i) { return from[static_cast<std::size_t>(i / 4)]; }));
    }
  });
}

VECTOR_TEST("bools are masks, and any byte but zero is true") {
  std::vector<Bool> from(kLanes), to(kLanes + 1, Bool{kUntouched});
  for (int i = 0; i < kLanes; ++i) {
    from[static_cast<std::size_t>(i)].bits = static_cast<unsigned char>(i % 3);
  }
  const Mask mask = load(from.data());
  store(to.data(), mask);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const bool is_true = i % 3 != 0;
    CHECK(mask[static_cast<int>(i)] == (is_true ? -1 : 0));
    CHECK(to[i].bits == (is_true ? 1 : 0));
    CHECK(load_one(&from[i]) == is_true);
  }
  CHECK(to.back().bits == kUntouched);
  store_one(&to.back(), true);
  CHECK(to.back().bits == 1);
}

VECTOR_TEST("masks of tails, and what is true of their lanes") {
  for (int n = 0; n <= kLanes; ++n) {
    const Mask mask = tail_mask(n);
    CAPTURE(n);
    CHECK(lanes_of<int>(mask) == expected_lanes<int>(n, [](int) { return -1; }));
    CHECK(any(mask) == (n > 0));
    CHECK(all(mask) == (n == kLanes));
  }
  CHECK(all(splat(true)));
  CHECK_FALSE(any(splat(false)));
  for (int i = 0; i < kLanes; ++i) {
    Mask one = {};
    one[i] = -1;
    CHECK(any(one));
    CHECK_FALSE(all(one));
    CHECK_FALSE(all(~one));
  }
}

VECTOR_TEST("lanes are filled, counted and rotated") {
  CHECK(lanes_of<float>(splat(1.5F)) == std::vector<float>(kLanes, 1.5F));
  CHECK(lanes_of<Index>(iota(-3)) == expected_lanes<Index>(kLanes, [](int i) { return i - 3; }));
  const F64 numbers = __builtin_convertvector(iota(0), F64);
  CHECK(lanes_of<double>(rotate<1>(numbers, AllLanes{})) ==
        expected_lanes<double>(kLanes, [](int i) { return (i + 1) % kLanes; }));
}

template <class T, class Combine>
T reduced(const std::vector<T>& values, const Combine& combine) {
  return std::accumulate(values.begin() + 1, values.end(), values.front(), combine);
}

VECTOR_TEST("reductions of integers are those of a loop") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = elements<T>(kLanes);
    CHECK(reduce_add(load(values.data())) == reduced(values, [](T a, T b) { return T(a + b); }));
    CHECK(reduce_maximum(load(values.data())) == *std::ranges::max_element(values));
    CHECK(reduce_minimum(load(values.data())) == *std::ranges::min_element(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(i % 4 == 0 ? 3 : 1);
    }
    CHECK(reduce_multiply(load(values.data())) ==
          reduced(values, [](T a, T b) { return T(a * b); }));
  };
  check(Index{});
  check(int{});
  check(short{});
}

VECTOR_TEST("reductions of floats see each lane, and NaN in any of them") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    // Sums and products of these are exact, in any order.
    const std::vector<T> values = elements<T>(kLanes);
    CHECK(reduce_add(load(values.data())) == reduced(values, [](T a, T b) { return a + b; }));
    CHECK(reduce_maximum(load(values.data())) == *std::ranges::max_element(values));
    CHECK(reduce_minimum(load(values.data())) == *std::ranges::min_element(values));
    for (std::size_t i = 0; i < kLanes; ++i) {
      std::vector<T> ones(kLanes, T{1});
      ones[i] = 5;
      CHECK(reduce_multiply(load(ones.data())) == 5);
      CHECK(reduce_maximum(load(ones.data())) == 5);
      ones[i] = std::numeric_limits<T>::quiet_NaN();
      CHECK(std::isnan(reduce_add(load(ones.data()))));
      CHECK(std::isnan(reduce_maximum(load(ones.data()))));
      CHECK(std::isnan(reduce_minimum(load(ones.data()))));
    }
  };
  check(float{});
  check(double{});
}

VECTOR_TEST("magnitudes and signs") {
  const std::vector<float> values = elements<float>(kLanes);
  const F32 vector = load(values.data());
  const auto at = [&](int i) { return values[static_cast<std::size_t>(i)]; };
  CHECK(lanes_of<float>(abs(vector)) ==
        expected_lanes<float>(kLanes, [&](int i) { return std::fabs(at(i)); }));
  CHECK(lanes_of<float>(sign(vector)) == expected_lanes<float>(kLanes, [&](int i) {
          return at(i) > 0 ? 1.0F : at(i) < 0 ? -1.0F : 0.0F;
        }));
  CHECK_FALSE(std::signbit(abs(splat(-0.0F))[0]));
}

VECTOR_TEST("an index out of range is noted and read as 0") {
  for (int bad = 0; bad < kLanes; ++bad) {
    for (const Index value : {Index{-1}, Index{kLanes}}) {
      I64 index = iota(0);
      index[bad] = value;
      CAPTURE(bad, value);
      int failure = 0;
      const I64 checked = check_index(index, splat(Index{kLanes}), &failure);
      CHECK(failure == 1);
      CHECK(lanes_of<Index>(checked) ==
            expected_lanes<Index>(kLanes, [&](int i) { return i == bad ? 0 : i; }));
      failure = 0;
      CHECK(check_index(value, kLanes, &failure) == 0);
      CHECK(failure == 1);
      // Beyond the end of a row there is no index.
      failure = 0;
      static_cast<void>(check_index(index, splat(Index{kLanes}), &failure, bad));
      CHECK(failure == 0);
    }
  }
}

VECTOR_TEST("what the compiler may not look into stays what it is") {
  const std::vector<double> values = elements<double>(kLanes);
  CHECK(lanes_of<double>(fence(load(values.data()))) == values);
  CHECK(fence(2.5F) == 2.5F);
  CHECK(opaque(7) == 7);
}

// The number that `bits` of an IEEE half stand for.
float value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 31 ? (fraction == 0 ? std::numeric_limits<float>::infinity()
                                                          : std::numeric_limits<float>::quiet_NaN())
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

float value_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

bool is_same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// All 65,536 patterns are loaded, and stored as they were unless they are NaN.
template <class T>
void check_conversions(float (*value_of)(std::uint16_t)) {
  std::uint32_t wrong = 0;
  for (std::uint32_t first = 0; first < 1U << 16; first += kLanes) {
    std::vector<T> from(kLanes), to(kLanes);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      from[i].bits = static_cast<unsigned short>(first + i);
    }
    const F32 loaded = load(from.data());
    store(to.data(), loaded);
    for (std::size_t i = 0; i < kLanes; ++i) {
      const float value = value_of(from[i].bits);
      wrong += is_same(loaded[static_cast<int>(i)], value) ? 0 : 1;
      wrong += is_same(load_one(&from[i]), value) ? 0 : 1;
      wrong += is_same(value_of(to[i].bits), value) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

VECTOR_TEST("halves and bfloat16 are converted exactly") {
  check_conversions<F16>(value_of_half);
  check_conversions<Bf16>(value_of_bfloat16);
}

// Halfway between neighbours, and a little beside it: to the nearest, ties to even.
template <class T>
void check_rounding(float (*value_of)(std::uint16_t), std::uint16_t infinity) {
  int wrong = 0;
  for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const float low = value_of(bits), high = value_of(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    const float even = bits % 2 == 0 ? low : high;
    const float cases[3][2] = {
        {middle, even}, {std::nextafter(middle, low), low}, {std::nextafter(middle, high), high}};
    for (const auto& [number, nearest] : cases) {
      T stored[2];
      store_one(&stored[0], number);
      store_one(&stored[1], -number);
      wrong += is_same(value_of(stored[0].bits), nearest) ? 0 : 1;
      wrong += is_same(value_of(stored[1].bits), -nearest) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

VECTOR_TEST("halves and bfloat16 are rounded to nearest, ties to even") {
  check_rounding<F16>(value_of_half, 0x7c00);
  check_rounding<Bf16>(value_of_bfloat16, 0x7f80);
  CHECK(round_to_half(splat(65519.0F))[0] == 65504);
  CHECK(std::isinf(round_to_half(splat(65520.0F))[0]));
  CHECK(round_to_bfloat16(splat(1.00390625F))[0] == 1);
}

VECTOR_TEST("tiles of any shape are transposed") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    constexpr Index kSide = 40;
    for (const Index rows : {1, 3, kLanes, 2 * kLanes, 2 * kLanes + 3}) {
      for (const Index columns : {1, kLanes - 1, kLanes, 2 * kLanes + 1}) {
        CAPTURE(sizeof(T), rows, columns);
        const Index stride = rows + 5;
        const std::vector<T> from = elements<T>(static_cast<std::size_t>(stride * columns));
        std::vector<T> to = untouched<T>(static_cast<std::size_t>(kSide * rows));
        std::vector<T> expected = to;
        transpose(to.data(), kSide, from.data(), stride, rows, columns);
        for (Index row = 0; row < rows; ++row) {
          for (Index column = 0; column < columns; ++column) {
            expected[static_cast<std::size_t>(row * kSide + column)] =
                from[static_cast<std::size_t>(column * stride + row)];
          }
        }
        CHECK(to == expected);
      }
    }
  };
  check(float{});
  check(int{});
  check(double{});
  check(short{});
}

}  // namespace
}  // namespace kiln::codegen

// What float functions do otherwise with AVX-512, whose vectors have sixteen.

#pragma once

#include <string_view>

namespace kiln::codegen {

/// a / b for a b that is neither 0 nor infinite, and for one that may be infinite. Dividing keeps
/// an AVX-512 unit busy for sixteen cycles, in which it could do as many multiplications: those
/// improve an estimate of 14 bits, and leave it 2 units in the last place off at most.
inline constexpr std::string_view kQuotientText =
    R"(static inline F32 quotient(F32 a, F32 b) { return a / b; }
static inline F32 quotient_by_any(F32 a, F32 b) { return a / b; }
)";
inline constexpr std::string_view kLongQuotientText = R"(static inline F32 quotient(F32 a, F32 b) {
  const F32 near = __builtin_ia32_rcp14ps512_mask(b, b, -1);
  return a * ((1.0f - b * near) * near + near);
}
static inline F32 quotient_by_any(F32 a, F32 b) {
  const F32 near = __builtin_ia32_rcp14ps512_mask(b, b, -1);
  const F32 rest = b < __builtin_inff() ? 1.0f - b * near : F32{};
  return a * (rest * near + near);
}
)";

/// x 2^n for the n whose digits are the last of `shifted`. In two halves, so that subnormal results
/// are rounded once and large ones overflow; AVX-512 has an instruction for it.
inline constexpr std::string_view kScaledText = R"(static inline F32 scaled(F32 x, F32 shifted) {
  const Mask whole = (Mask)shifted - 0x4b400000;
  const Mask half = whole >> 1;
  return x * (F32)((half + 127) << 23) * (F32)((whole - half + 127) << 23);
}
)";
inline constexpr std::string_view kLongScaledText =
    R"(static inline F32 scaled(F32 x, F32 shifted) {
  return __builtin_ia32_scalefps512_mask(x, shifted - 12582912.0f, x, -1, 4);
}
)";

/// Limits that NaN passes. GCC compares and blends where AVX-512 has one instruction.
inline constexpr std::string_view kLimitedText =
    R"(static inline F32 at_least(F32 x, float limit) { return x < limit ? splat(limit) : x; }
static inline F32 at_most(F32 x, float limit) { return x > limit ? splat(limit) : x; }
)";
inline constexpr std::string_view kLongLimitedText =
    R"(static inline F32 at_least(F32 x, float limit) {
  return __builtin_ia32_maxps512_mask(splat(limit), x, x, -1, 4);
}
static inline F32 at_most(F32 x, float limit) {
  return __builtin_ia32_minps512_mask(splat(limit), x, x, -1, 4);
}
)";

/// The larger of two, where the first may be NaN, which is then the smaller.
inline constexpr std::string_view kLargerText =
    R"(static inline F32 larger(F32 a, F32 b) { return a > b ? a : b; }
)";
inline constexpr std::string_view kLongLargerText =
    R"(static inline F32 larger(F32 a, F32 b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, 4); }
)";

/// e^x. Below -104 it is 0. To scale a number to one so small takes a processor longer than all the
/// rest, and AVX-512's instruction leaves out lanes that are not wanted: masked scores are minus
/// infinity.
inline constexpr std::string_view kExpText = R"(static inline F32 exp_below_90(F32 x) {
  x = at_least(x, -105.0f);
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  return scaled(exp_reduced(r) + 1.0f, shifted);
}
static inline F32 exp(F32 x) { return exp_below_90(at_most(x, 90.0f)); }
)";
inline constexpr std::string_view kLongExpText = R"(static inline F32 exp_below_90(F32 x) {
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const F32 power = scaled(exp_reduced(r) + 1.0f, shifted);
  return x < -104.0f ? F32{} : power;
}
static inline F32 exp(F32 x) { return exp_below_90(at_most(x, 90.0f)); }
)";

/// 2^n / (2^n + e^r), where the last 2^n scales what is left, so that it is rounded once.
inline constexpr std::string_view kLongSigmoidText = R"(static inline F32 sigmoid(F32 x) {
  x = at_least(at_most(x, 30.0f), -105.0f);
  const F32 shifted = x * 1.44269504f + 12582912.0f;
  const F32 n = shifted - 12582912.0f;
  const F32 r = (n * 0.693359375f - x) - n * 2.12194440e-4f;
  const F32 sum = (exp_reduced(r) + 1.0f) + scaled(splat(1.0f), shifted);
  return scaled(quotient(splat(1.0f), sum), shifted);
}
)";

}  // namespace kiln::codegen

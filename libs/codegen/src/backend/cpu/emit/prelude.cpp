#include "backend/cpu/emit/prelude.hpp"

#include <span>

#include "backend/cpu/tuning.hpp"
#include "kiln/base/error.hpp"
#include "loop/scalar.hpp"

namespace kiln::codegen {

using ir::DType;

namespace {

struct TypeNames {
  DType dtype;
  std::string_view scalar, vector, memory;
};

constexpr TypeNames kTypes[] = {
    {DType::kFloat32, "float", "F32", "float"},
    {DType::kFloat64, "double", "F64", "double"},
    {DType::kInt64, "long long", "I64", "long long"},
    {DType::kInt32, "int", "I32", "int"},
    {DType::kInt16, "short", "I16", "short"},
    {DType::kInt8, "signed char", "I8", "signed char"},
    {DType::kUInt8, "unsigned char", "U8", "unsigned char"},
    {DType::kBool, "bool", "Mask", "Bool"},
    {DType::kFloat16, "float", "F32", "F16"},
    {DType::kBFloat16, "float", "F32", "Bf16"},
};

const TypeNames& names_of(DType dtype) {
  for (const TypeNames& names : kTypes) {
    if (names.dtype == dtype) {
      return names;
    }
  }
  throw Error(ErrorCode::kUnsupported,
              "no kernel can hold elements of type " + std::string(ir::to_string(dtype)));
}

std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<std::string_view, std::string_view>> words) {
  std::string result(text);
  for (const auto& [from, to] : words) {
    for (std::size_t at = result.find(from); at != std::string::npos;
         at = result.find(from, at + to.size())) {
      result.replace(at, from.size(), to);
    }
  }
  return result;
}

constexpr std::string_view kVector =
    R"(typedef $S $V __attribute__((vector_size(sizeof($S) * kLanes)));
static inline $V splat($S x) { return x - $V{}; }
)";

constexpr std::string_view kMask = R"(typedef int Mask __attribute__((vector_size(4 * kLanes)));
static inline Mask splat(bool x) { return -(int)x - Mask{}; }
template <class T>
static inline T unknown(T x) {
  asm("" : "+rm"(x));
  return x;
}
static inline Mask lanes_below(int n) {
  Mask m;
  for (int i = 0; i < kLanes; ++i) m[i] = i < n ? -1 : 0;
  return m;
}
)";

// Keeps a compiler from contracting what made `x` with what it is added to.
constexpr std::string_view kFence = R"(#if defined(__aarch64__)
#define KILN_REGISTER "w"
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
constexpr int kRegisterBytes = __ARM_FEATURE_SVE_BITS / 8;
#else
constexpr int kRegisterBytes = 16;
#endif
#else
#define KILN_REGISTER "v"
#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif
#endif
template <class T>
static inline T fence(T x) {
  if constexpr (sizeof(T) <= kRegisterBytes) {
    asm("" : "+" KILN_REGISTER(x));
    return x;
  } else {
    typedef double Half __attribute__((vector_size(sizeof(T) / 2)));
    struct Halves { Half low, high; } halves = __builtin_bit_cast(Halves, x);
    halves = {fence(halves.low), fence(halves.high)};
    return __builtin_bit_cast(T, halves);
  }
}
)";

// Elements that are computed in the type they are stored in.
constexpr std::string_view kPlainMemory =
    R"(typedef $V Unaligned$V __attribute__((aligned(sizeof($S)), may_alias));
static inline $S load_one(const $S* p) { return *p; }
static inline void store_one($S* p, $S x) { *p = x; }
static inline $V load(const $S* p) { return *(const Unaligned$V*)p; }
static inline void store($S* p, $V v) { *(Unaligned$V*)p = v; }
)";

// Elements that are converted one vector at a time; $T is the type in memory.
constexpr std::string_view kConvertedMemory = R"(static inline $V load(const $T* p) {
  Bits16 bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return from_$T(__builtin_convertvector(bits, Bits32));
}
static inline void store($T* p, F32 v) {
  const Bits16 bits = __builtin_convertvector(to_$T(v), Bits16);
  __builtin_memcpy(p, &bits, sizeof bits);
}
static inline float load_one(const $T* p) { return from_$T(Bits32{p->bits})[0]; }
static inline void store_one($T* p, float x) { p->bits = (unsigned short)to_$T(splat(x))[0]; }
)";

constexpr std::string_view kBits =
    R"(typedef unsigned Bits32 __attribute__((vector_size(4 * kLanes)));
typedef unsigned short Bits16 __attribute__((vector_size(2 * kLanes)));
)";

constexpr std::string_view kBf16 = R"(struct Bf16 { unsigned short bits; };
static inline F32 from_Bf16(Bits32 b) { return (F32)(b << 16); }
// To nearest, ties to even; NaN stays NaN.
static inline Bits32 to_Bf16(F32 v) {
  const Bits32 b = (Bits32)v;
  const Bits32 rounded = (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
  return v == v ? rounded : Bits32{} + 0x7fc0U;
}
)";

constexpr std::string_view kF16 = R"(struct F16 { unsigned short bits; };
static inline F32 from_F16(Bits32 h) {
  const Bits32 sign = (h & 0x8000U) << 16;
  const Bits32 magnitude = (h & 0x7fffU) << 13;
  // Shifts the exponent's bias by a multiplication, which also normalises subnormals.
  const F32 scaled = (F32)magnitude * 0x1p112f;
  const Bits32 special = (Bits32)magnitude | 0x7f800000U;
  return (F32)(((h & 0x7c00U) == 0x7c00U ? special : (Bits32)scaled) | sign);
}
// To nearest, ties to even: beyond the largest finite value infinity, NaN stays NaN.
static inline Bits32 to_F16(F32 v) {
  const Bits32 bits = (Bits32)v;
  const Bits32 sign = (bits >> 16) & 0x8000U;
  const Bits32 magnitude = bits & 0x7fffffffU;
  const Bits32 normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding a half's unit in the last place as a float rounds subnormals at the right bit.
  const Bits32 subnormal = (Bits32)((F32)magnitude + 0.5f) - 0x3f000000U;
  Bits32 result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477ff000U ? Bits32{} + 0x7c00U : result;
  result = magnitude > 0x7f800000U ? Bits32{} + 0x7e00U : result;
  return result | sign;
}
)";

constexpr std::string_view kBoolMemory = R"(struct Bool { unsigned char bits; };
typedef unsigned char BoolBytes __attribute__((vector_size(kLanes)));
static inline Mask load(const Bool* p) {
  BoolBytes bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, Mask) != 0;
}
static inline void store(Bool* p, Mask m) {
  const BoolBytes bytes = __builtin_convertvector(m & 1, BoolBytes);
  __builtin_memcpy(p, &bytes, sizeof bytes);
}
static inline bool load_one(const Bool* p) { return p->bits != 0; }
static inline void store_one(Bool* p, bool x) { p->bits = x; }
)";

// The end of a row, and strided elements: lane by lane.
constexpr std::string_view kPartialMemory = R"(static inline $V load(const $T* p, int n) {
  $T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}
static inline void store($T* p, $V v, int n) {
  $T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i) p[i] = part[i];
}
static inline $V load_strided(const $T* p, Index stride, int n = kLanes) {
  $T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i * stride];
  return load(part);
}
static inline void store_strided($T* p, Index stride, $V v, int n = kLanes) {
  $T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i) p[i * stride] = part[i];
}
)";

// Elements anywhere.
constexpr std::string_view kScatteredMemory =
    R"(static inline $V load_at(const $T* p, I64 at, int n = kLanes) {
  $T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[at[i]];
  return load(part);
}
static inline void store_at($T* p, I64 at, $V v, int n = kLanes) {
  $T part[kLanes];
  store(part, v);
  for (int i = 0; i < n; ++i) p[at[i]] = part[i];
}
)";

// Each element several times in a row.
constexpr std::string_view kRepeatedMemory = R"(template <int kTimes>
static inline $V load_repeated(const $T* p, int n = kLanes) {
  $T part[kLanes] = {};
  for (int i = 0; i < n; ++i) part[i] = p[i / kTimes];
  return load(part);
}
)";

struct GenericFunction {
  std::string_view name, floating, integral;
};

// Functions of every number type, on vectors ($V) and, where a row needs them, on scalars ($S).
constexpr GenericFunction kGeneric[] = {
    {"maximum",
     R"(static inline $V maximum($V a, $V b) { return (a > b) | (a != a) ? a : b; }
static inline $S maximum($S a, $S b) { return a > b || a != a ? a : b; }
)",
     R"(static inline $V maximum($V a, $V b) { return a > b ? a : b; }
static inline $S maximum($S a, $S b) { return a > b ? a : b; }
)"},
    {"minimum",
     R"(static inline $V minimum($V a, $V b) { return (a < b) | (a != a) ? a : b; }
static inline $S minimum($S a, $S b) { return a < b || a != a ? a : b; }
)",
     R"(static inline $V minimum($V a, $V b) { return a < b ? a : b; }
static inline $S minimum($S a, $S b) { return a < b ? a : b; }
)"},
    {"abs",
     R"(static inline $V abs($V x) {
  for (int i = 0; i < kLanes; ++i) x[i] = ($S)__builtin_fabs(x[i]);
  return x;
}
)",
     R"(static inline $V abs($V x) { return x < 0 ? -x : x; }
)"},
    {"sign",
     R"(static inline $V sign($V x) { return x > 0 ? $V{} + 1 : x < 0 ? $V{} - 1 : $V{}; }
)",
     R"(static inline $V sign($V x) { return x > 0 ? $V{} + 1 : x < 0 ? $V{} - 1 : $V{}; }
)"},
    {"check_index",
     "",
     R"(static inline I64 check_index(I64 index, I64 extent, int* failure, int n = kLanes) {
  const I64 outside = (index < 0) | (index >= extent);
  Index any = 0;
  for (int i = 0; i < n; ++i) any |= outside[i];
  if (any) __atomic_store_n(failure, 1, __ATOMIC_RELAXED);
  return outside ? I64{} : index;
}
static inline Index check_index(Index index, Index extent, int* failure) {
  if (index >= 0 && index < extent) return index;
  __atomic_store_n(failure, 1, __ATOMIC_RELAXED);
  return 0;
}
)"},
    {"lane_numbers",
     "",
     R"(static inline I64 lane_numbers(Index first) {
  I64 v;
  for (int i = 0; i < kLanes; ++i) v[i] = first + i;
  return v;
}
)"},
    {"add_lanes",
     R"(static inline $S add_lanes($V v) {
$HALVES  return v[0];
}
)",
     ""},
    {"multiply_lanes",
     R"(static inline $S multiply_lanes($V v) {
$HALVES  return v[0];
}
)",
     ""},
    {"maximum_lanes",
     R"(static inline $S maximum_lanes($V v) {
$HALVES  return v[0];
}
)",
     ""},
    {"minimum_lanes",
     R"(static inline $S minimum_lanes($V v) {
$HALVES  return v[0];
}
)",
     ""},
};

// Combines `v` with itself, half a vector ahead, then a quarter, …: all lanes are then in the
// first.
std::string combined_halves(std::string_view function, int lanes) {
  const std::string_view sign = function == "add_lanes" ? " + " : " * ";
  const bool is_call = function == "maximum_lanes" || function == "minimum_lanes";
  std::string text;
  for (int step = lanes / 2; step > 0; step /= 2) {
    std::string ahead = "__builtin_shufflevector(v, v";
    for (int i = 0; i < lanes; ++i) {
      ahead += ", " + std::to_string((i + step) % lanes);
    }
    ahead += ")";
    text += "  v = " +
            (is_call ? std::string(function.substr(0, 7)) + "(v, " + ahead + ")"
                     : "v" + std::string(sign) + ahead) +
            ";\n";
  }
  return text;
}

constexpr std::string_view kMaskLanes = R"(static inline bool any_lane(Mask m) {
  int any = 0;
  for (int i = 0; i < kLanes; ++i) any |= m[i];
  return any != 0;
}
static inline bool every_lane(Mask m) {
  int every = -1;
  for (int i = 0; i < kLanes; ++i) every &= m[i];
  return every != 0;
}
)";

}  // namespace

std::string_view scalar_type(DType dtype) {
  return names_of(dtype).scalar;
}
std::string_view vector_type(DType dtype) {
  return names_of(dtype).vector;
}
std::string_view memory_type(DType dtype) {
  return names_of(dtype).memory;
}

void Prelude::use_vector(DType dtype) {
  vectors_.insert(dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype);
}

void Prelude::use_memory(DType dtype) {
  memory_.insert(dtype);
  use_vector(dtype);
}

void Prelude::use_gather_scatter() {
  scattered_ = true;
  use_vector(DType::kInt64);
}

void Prelude::use_functions(std::string_view names, DType dtype) {
  while (!names.empty()) {
    const std::size_t end = names.find(' ');
    use_function(names.substr(0, end), dtype);
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  }
}

void Prelude::use_function(std::string_view name, DType dtype) {
  use_vector(dtype);
  for (const GenericFunction& function : kGeneric) {
    if (function.name == name) {
      if (name == "maximum_lanes" || name == "minimum_lanes") {
        use_function(name.substr(0, 7), dtype);
      }
      generic_functions_.emplace(std::string(name), dtype);
      return;
    }
  }
  if (name == to_string(ScalarOp::kRoundToHalf)) {
    use_memory(DType::kFloat16);
  } else if (name == to_string(ScalarOp::kRoundToBFloat16)) {
    use_memory(DType::kBFloat16);
  }
  const bool wide = dtype == DType::kFloat64;
  for (const MathFunction& function : wide ? double_functions() : float_functions()) {
    if (function.name != name) {
      continue;
    }
    use_functions(function.uses, dtype);
    use_functions(function.wide_uses, DType::kFloat64);
  }
  (wide ? double_functions_ : float_functions_).emplace(name);
}

std::string Prelude::text() const {
  std::string out =
      "typedef long long Index;\nconstexpr int kLanes = " + std::to_string(lanes_) + ";\n";
  out += kMask;
  out += fences_ ? kFence : std::string_view();
  for (const DType dtype : vectors_) {
    if (dtype != DType::kBool) {
      out += replaced(kVector, {{"$S", scalar_type(dtype)}, {"$V", vector_type(dtype)}});
    }
  }
  const bool converted = memory_.contains(DType::kBFloat16) || memory_.contains(DType::kFloat16);
  out += converted || !float_functions_.empty() ? kBits : std::string_view();
  for (const DType dtype : memory_) {
    const std::string_view memory = memory_type(dtype);
    const std::string_view vector = vector_type(dtype);
    if (dtype == DType::kBool) {
      out += kBoolMemory;
    } else if (dtype == DType::kBFloat16 || dtype == DType::kFloat16) {
      out += dtype == DType::kBFloat16 ? kBf16 : kF16;
      out += replaced(kConvertedMemory, {{"$T", memory}, {"$V", vector}});
    } else {
      out += replaced(kPlainMemory, {{"$S", memory}, {"$V", vector}});
    }
    out += replaced(kPartialMemory, {{"$T", memory}, {"$V", vector}});
    if (repeated_) {
      out += replaced(kRepeatedMemory, {{"$T", memory}, {"$V", vector}});
    }
    if (turned_.contains(dtype)) {
      out += replaced(transpose_source(dtype, lanes_), {{"$T", memory}, {"$V", vector}});
    }
    if (scattered_) {
      out += replaced(kScatteredMemory, {{"$T", memory}, {"$V", vector}});
    }
  }
  for (const GenericFunction& function : kGeneric) {
    for (const DType dtype : vectors_) {
      if (!generic_functions_.contains({std::string(function.name), dtype})) {
        continue;
      }
      const bool floating = ir::is_floating_point(dtype) || function.integral.empty();
      out += replaced(floating ? function.floating : function.integral,
                      {{"$S", scalar_type(dtype)},
                       {"$V", vector_type(dtype)},
                       {"$HALVES", combined_halves(function.name, lanes_)}});
    }
  }
  if (vectors_.contains(DType::kBool)) {
    out += kMaskLanes;
  }
  const auto with_long_text = [&](const MathFunction& function) {
    const std::string text(function.text);
    return is_avx512(lanes_) && !function.long_text.empty()
               ? "#if defined(__AVX512F__) && !defined(__clang__)\n" +
                     std::string(function.long_text) + "#else\n" + text + "#endif\n"
               : text;
  };
  const auto add_functions = [&](std::span<const MathFunction> functions, const Names& used) {
    for (const MathFunction& function : functions) {
      if (used.contains(function.name)) {
        out += with_long_text(function);
      }
    }
  };
  add_functions(double_functions(), double_functions_);
  add_functions(float_functions(), float_functions_);
  return out;
}

}  // namespace kiln::codegen

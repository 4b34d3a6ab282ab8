// The source text that kernels stand on: vector types, loads and stores, math functions.
//
// A kernel includes nothing, so that it compiles in a fraction of a second; it starts with those of
// these pieces that it uses.

#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "kiln/ir/types.hpp"

namespace kiln::codegen {

/// "float", "long long", …: a scalar of `dtype`, which is a compute type.
[[nodiscard]] std::string_view scalar_type(ir::DType dtype);
/// "F32", "I64", …: as many of them as a vector has lanes. Bools are masks.
[[nodiscard]] std::string_view vector_type(ir::DType dtype);
/// What elements are in memory: "Bf16", "Bool", "float", ….
[[nodiscard]] std::string_view memory_type(ir::DType dtype);

/// Collects what a kernel uses.
class Prelude {
 public:
  explicit Prelude(int vector_bytes) : lanes_(vector_bytes / 4) {}

  /// Floats in a vector; vectors of other types have as many elements.
  [[nodiscard]] int lanes() const { return lanes_; }

  /// Loads, stores and splats of elements of `dtype` in memory.
  void use_memory(ir::DType dtype);
  /// Loads and stores at computed places, of every type in memory.
  void use_gather_scatter();
  /// Loads of each element several times in a row, of every type in memory.
  void use_repeated() { repeated_ = true; }
  /// Tiles of elements of `dtype` that are turned.
  void use_transposed(ir::DType dtype) { turned_.insert(dtype); }
  /// `fence`, of numbers and vectors: what it returns is not contracted with a sum.
  void use_fence() { fences_ = true; }
  /// The vector type of `dtype`.
  void use_vector(ir::DType dtype);
  /// A function of vectors by its name: "exp", "maximum", … .
  void use_function(std::string_view name, ir::DType dtype);

  /// Everything that was asked for, in an order that compiles.
  [[nodiscard]] std::string text() const;

 private:
  using Names = std::set<std::string, std::less<>>;

  void use_functions(std::string_view names, ir::DType dtype);

  int lanes_;
  bool scattered_ = false;
  bool repeated_ = false;
  bool fences_ = false;
  std::set<ir::DType> memory_;
  std::set<ir::DType> turned_;
  std::set<ir::DType> vectors_;
  Names float_functions_;
  Names double_functions_;
  std::set<std::pair<std::string, ir::DType>> generic_functions_;
};

/// `turn`, which copies columns into the rows of a tile; `$T` is the type in memory, `$V` its
/// vector.
[[nodiscard]] std::string transpose_source(ir::DType dtype, int lanes);

/// A function of vectors of one type and what it calls.
struct MathFunction {
  std::string_view name;
  std::string_view uses;  ///< Separated by blanks; each comes before this one in the list.
  std::string_view text;
  std::string_view wide_uses = {};  ///< The same, of functions of double vectors.
  std::string_view long_text = {};  ///< Instead of `text` with AVX-512 and GCC, if it differs.
};

/// Every function of float vectors, each after the ones it uses.
[[nodiscard]] std::span<const MathFunction> float_functions();
/// The same for double vectors.
[[nodiscard]] std::span<const MathFunction> double_functions();

}  // namespace kiln::codegen

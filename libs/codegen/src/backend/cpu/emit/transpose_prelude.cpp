// Turning a tile: what lies in columns is copied into rows.

#include "backend/cpu/emit/prelude.hpp"

namespace kiln::codegen {

namespace {

// The rows and columns of a tile whose sides are not a multiple of a vector's, and other types.
constexpr std::string_view kEach =
    R"(static inline void turn_each($T* to, Index side, const $T* from, Index stride, Index top, Index bottom, Index begin, Index end) {
  for (Index j = begin; j < end; ++j)
    for (Index m = top; m < bottom; ++m) to[m * side + j] = from[j * stride + m];
}
)";

constexpr std::string_view kTurnEach =
    R"(static inline void turn($T* to, Index side, const $T* from, Index stride, Index rows, Index columns) {
  turn_each(to, side, from, stride, 0, rows, 0, columns);
}
)";

constexpr std::string_view kTurnSquares =
    R"(static inline void turn($T* to, Index side, const $T* from, Index stride, Index rows, Index columns) {
  const Index bottom = rows / kLanes * kLanes, end = columns / kLanes * kLanes;
  for (Index j = 0; j < end; j += kLanes)
    for (Index m = 0; m < bottom; m += kLanes) turn_square(to + m * side + j, side, from + j * stride + m, stride);
  turn_each(to, side, from, stride, bottom, rows, 0, end);
  turn_each(to, side, from, stride, 0, rows, end, columns);
}
)";

// The lanes of two vectors in turns: those from `first` on, up to half a vector of each.
std::string interleave(const std::string& a, const std::string& b, int lanes, int first) {
  std::string text = "__builtin_shufflevector(" + a + ", " + b;
  for (int i = first; i < first + lanes / 2; ++i) {
    text += ", " + std::to_string(i) + ", " + std::to_string(i + lanes);
  }
  return text + ")";
}

// As many vectors as each has lanes. Interleaving the first half with the second, as often as two
// divides their number, makes rows of columns.
std::string turn_square(int lanes) {
  std::string text =
      "static inline void turn_square($T* to, Index side, const $T* from, Index stride) {\n";
  const auto name = [](int round, int i) {
    return "v" + std::to_string(round) + "_" + std::to_string(i);
  };
  for (int i = 0; i < lanes; ++i) {
    text += "  const $V " + name(0, i) + " = load(from + " + std::to_string(i) + " * stride);\n";
  }
  int round = 0;
  for (int size = 1; size < lanes; size *= 2, ++round) {
    for (int i = 0; i < lanes; ++i) {
      text += "  const $V " + name(round + 1, i) + " = " +
              interleave(name(round, i / 2),
                         name(round, i / 2 + lanes / 2),
                         lanes,
                         i % 2 == 0 ? 0 : lanes / 2) +
              ";\n";
    }
  }
  for (int i = 0; i < lanes; ++i) {
    text += "  store(to + " + std::to_string(i) + " * side, " + name(round, i) + ");\n";
  }
  return text + "}\n";
}

}  // namespace

std::string transpose_source(ir::DType dtype, int lanes) {
  const bool plain = dtype == ir::DType::kFloat32 || dtype == ir::DType::kInt32;
  return std::string(kEach) +
         (plain ? turn_square(lanes) + std::string(kTurnSquares) : std::string(kTurnEach));
}

}  // namespace kiln::codegen

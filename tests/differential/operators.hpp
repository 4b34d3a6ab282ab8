// The table of the operator sweep: one line for each overload that codegen has a lowering for.

#pragma once

#include <vector>

#include "compare.hpp"
#include "draw.hpp"

namespace kiln::differential {

/// Which types a line is run with.
enum class Types { kFloats, kNumbers, kIntegers, kAll };

[[nodiscard]] std::vector<at::ScalarType> types_of(Types types);

/// One operator: how it is called on arguments drawn for it, and how close its results must come.
struct Line {
  const char* target;  ///< What the trace must show: "aten.add.Tensor".
  Types types;
  Closeness closeness;
  Tensors (*run)(Draw&);
};

[[nodiscard]] std::vector<Line> pointwise_lines();
[[nodiscard]] std::vector<Line> moving_lines();
[[nodiscard]] std::vector<Line> reducing_lines();
[[nodiscard]] std::vector<Line> product_lines();
[[nodiscard]] std::vector<Line> sequence_lines();
[[nodiscard]] std::vector<Line> list_lines();

}  // namespace kiln::differential

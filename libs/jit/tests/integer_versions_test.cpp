// How many versions are compiled for integers that are adjacent, or that are passed repeatedly.

#include <torch/torch.h>

#include <cstdint>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

TEST_CASE("an integer is not taken for tried where nothing made it a symbol", "[jit][integers]") {
  const auto fast =
      compile([](const torch::Tensor& x, std::int64_t n) { return x.sin() * n; }, uncached());
  const torch::Tensor vector = torch::ones({3}), matrix = torch::ones({3, 4});

  static_cast<void>(fast(vector, 5));
  static_cast<void>(fast(matrix, 40));  // The first call of these ranks.
  static_cast<void>(fast(matrix, 41));

  const CompileReport report = fast.report();
  CHECK(report.versions == 3);
  CHECK(report.details.back().symbols.size() == 1);
  CHECK(torch::allclose(fast(matrix, 23), matrix.sin() * 23));
  CHECK(fast.report().compiles == 3);
}

}  // namespace
}  // namespace kiln

// Numbers that are chosen by where they are.

#include <torch/torch.h>

#include "compiled.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::differential {
namespace {

using at::Tensor;

// Every second row, or column, is a sum, the others are a product.
Tensor chosen(const Tensor& x, const Tensor& mask, std::int64_t dim) {
  const Tensor product = x * 0.8137;
  const std::int64_t end = x.size(dim);
  const Tensor beside = dim == 0 ? mask : mask.slice(1, 0, end, 2);
  const Tensor sum = at::add(product.slice(dim, 0, end, 2), beside, 0.5);
  return at::slice_scatter(product, sum, dim, 0, end, 2);
}

// Short rows: a compiler unrolls their loops, and then knows the conditions.
TEST_CASE("sums and products that are chosen by their place", "[differential][choice]") {
  const auto dim = GENERATE(0, 2);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    torch::manual_seed(1);
    capture::Tensors inputs;
    for (const std::int64_t length : {1, 3, 8, 9, 16, 17, 25, 33, 40}) {
      const Tensor rows = torch::randn({70 * length}, type);
      inputs.push_back(rows.as_strided({2, 1, length}, {2 * length + 1, 2 * length + 1, 2}, 1));
      inputs.push_back(torch::rand({1, length}) > 0.5);
    }
    const auto function = [&](const capture::Tensors& in) {
      capture::Tensors outputs;
      for (std::size_t i = 0; i < in.size(); i += 2) {
        outputs.push_back(chosen(in[i], in[i + 1], dim));
      }
      return outputs;
    };

    const capture::Tensors found = run_compiled(traced(function, inputs), inputs);
    const capture::Tensors wanted = function(inputs);

    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(toString(type) << ", output " << i);
      CHECK(at::allclose(found[i], wanted[i], 1e-5, 1e-6));
    }
  }
}

}  // namespace
}  // namespace kiln::differential

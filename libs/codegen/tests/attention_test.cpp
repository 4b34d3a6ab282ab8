#include "backend/cpu/match/attention.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"
#include "support/typed_value.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::typed;

struct Case {
  std::int64_t batches = 1;
  std::int64_t heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t depth = 4;
  bool causal = false;
  std::vector<std::int64_t> mask = {};  // Its sizes; none if empty.
  std::optional<double> scale = {};
};

// As a model of several heads has them: side by side in each row.
at::Tensor heads_of(const Case& given, std::int64_t rows) {
  return torch::randn({given.batches, rows, given.heads, given.depth}).transpose(1, 2);
}

Tensors inputs_of(const Case& given) {
  Tensors inputs = {
      heads_of(given, given.queries), heads_of(given, given.keys), heads_of(given, given.keys)};
  if (!given.mask.empty()) {
    inputs.push_back(torch::randn(given.mask));
  }
  return inputs;
}

Tensors eager(const Case& given, const Tensors& inputs) {
  auto [result, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      inputs[0],
      inputs[1],
      inputs[2],
      0.0,
      given.causal,
      inputs.size() > 3 ? std::optional(inputs[3]) : std::nullopt,
      given.scale);
  return {result, sums};
}

std::string graph_text(const Case& given,
                       const Tensors& inputs,
                       const Tensors& expected,
                       bool saves) {
  std::string text = "graph g {\n";
  const std::vector<std::string> names = {"q", "k", "v", "m"};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += "  input " + typed(names[i], inputs[i]) + " user\n";
  }
  text += "  " + typed("y", expected[0]) + ", " + typed("s", expected[1]) +
          " = aten._scaled_dot_product_flash_attention_for_cpu.default(%q, %k, %v, 0.0, " +
          (given.causal ? "true" : "false") + ", " + (given.mask.empty() ? "none" : "%m") + ", " +
          (given.scale ? std::to_string(*given.scale) : "none") + ")\n  output %y user\n";
  return text + (saves ? "  output %s user\n}" : "}");
}

void check_like_libtorch(const Case& given, const Tensors& inputs, double tolerance = 1e-5) {
  CAPTURE(given.batches, given.heads, given.queries, given.keys, given.depth, given.causal);
  CAPTURE(given.mask);
  const Tensors expected = eager(given, inputs);
  const bool is_kernel = has_attention(resolve_target("native"));
  for (const bool saves : {false, true}) {
    LoadedModel model(
        graph_of(graph_text(given, inputs, expected, saves)), {}, {}, Scheduler::kReal);

    const Tensors results = model(inputs);

    CHECK(model.report().extern_calls == (is_kernel ? 0 : 1));
    REQUIRE(results.size() == (saves ? 2 : 1));
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].strides() == expected[i].strides());
      CHECK(torch::allclose(results[i], expected[i], tolerance, tolerance, /*equal_nan=*/true));
    }
  }
}

TEST_CASE("attention equals libtorch's", "[codegen][attention]") {
  const std::vector<Case> cases = {
      {2, 3, 64, 64, 64},
      {1, 2, 28, 197, 64},
      {1, 1, 4, 1, 4},
      {1, 2, 5, 3, 12},
      {2, 1, 9, 31, 40},
      {1, 1, 15, 33, 100},
      {1, 2, 33, 33, 80, true},
      {1, 1, 50, 70, 32, true},
      {1, 1, 70, 50, 32, true},
      {2, 2, 17, 45, 16, false, {2, 2, 17, 45}},
      {2, 2, 17, 45, 16, false, {2, 1, 1, 45}},
      {2, 2, 17, 45, 16, false, {1, 2, 17, 45}, 0.5},
      // Groups of queries, and threads.
      {1, 1, 300, 120, 64, true},
      {1, 3, 160, 1100, 32},
  };
  for (const Case& given : cases) {
    check_like_libtorch(given, inputs_of(given));
  }
}

TEST_CASE("attention to nothing is nothing, and what is not finite is passed on",
          "[codegen][attention]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Case given{2, 2, 20, 37, 16, false, {2, 2, 20, 37}};
  Tensors inputs = inputs_of(given);
  inputs[3].masked_fill_(inputs[3] < 0, -infinity);
  inputs[3].index_put_({0, 1, 3}, -infinity);
  check_like_libtorch(given, inputs);
  inputs[0].index_put_({1, 0, 7, 2}, std::numeric_limits<double>::quiet_NaN());
  check_like_libtorch(given, inputs);
}

TEST_CASE("scores far from each other stay apart", "[codegen][attention]") {
  const Case given{1, 2, 30, 48, 32};
  Tensors inputs = inputs_of(given);
  inputs[0] *= 60;
  // Scores of hundreds are rounded by so much.
  check_like_libtorch(given, inputs, 1e-3);
}

TEST_CASE("attention that no tile pays for is libtorch's", "[codegen][attention]") {
  for (const Case& given : {Case{1, 2, 1, 64, 64}, Case{1, 1, 8, 3000, 16}, Case{1, 1, 8, 8, 6}}) {
    const Tensors inputs = inputs_of(given);
    const Tensors expected = eager(given, inputs);
    LoadedModel model(
        graph_of(graph_text(given, inputs, expected, false)), {}, {}, Scheduler::kReal);

    CHECK(model.report().extern_calls == 1);
    CHECK(torch::allclose(model(inputs)[0], expected[0], 1e-5, 1e-5));
  }
}

}  // namespace
}  // namespace kiln::codegen

#include "passes/unroll_lstm.hpp"

#include <torch/torch.h>

#include <string>

#include "kiln/testing/catch2.hpp"
#include "support/loaded_model.hpp"

namespace kiln::codegen {
namespace {

using testing::graph_of;
using testing::LoadedModel;
using testing::Scheduler;
using testing::Tensors;
using testing::with_constants;

constexpr std::int64_t kHidden = 16;

// One direction of a layer, 7 steps of 3 sequences with 12 features.
std::string layer(bool reverse, bool biases) {
  const std::string flag = reverse ? "true" : "false";
  return R"(graph g {
    input %wi: f32[64, 12] parameter "wi"
    input %wh: f32[64, 16] parameter "wh"
    input %bi: f32[64] parameter "bi"
    input %bh: f32[64] parameter "bh"
    input %x: f32[7, 3, 12]{12, 84, 1} user
    input %h: f32[3, 16] user
    input %c: f32[3, 16] user
    %y: f32[7, 3, 16], %hy: f32[3, 16], %cy: f32[3, 16], none = aten.mkldnn_rnn_layer.default(%x, %wi, %wh, %bi, %bh, %h, %c, )" +
         flag + ", [], 2, 16, 1, " + (biases ? "true" : "false") + R"(, false, false, false)
    output %y user
    output %hy user
    output %cy user
  })";
}

TEST_CASE("a written out LSTM gives what libtorch's gives, in both directions",
          "[codegen][recurrent]") {
  const bool reverse = GENERATE(false, true);
  const bool biases = GENERATE(true, false);
  CAPTURE(reverse, biases);
  const Tensors weights = {torch::randn({4 * kHidden, 12}),
                           torch::randn({4 * kHidden, kHidden}),
                           torch::randn({4 * kHidden}),
                           torch::randn({4 * kHidden})};
  LoadedModel model(unroll_lstm(graph_of(layer(reverse, biases))),
                    with_constants(weights),
                    weights,
                    Scheduler::kReal);
  const at::Tensor x = torch::randn({3, 7, 12}).transpose(0, 1);
  const at::Tensor h = torch::randn({3, kHidden});
  const at::Tensor c = torch::randn({3, kHidden});

  const Tensors results = model({x, h, c});

  // Both directions of libtorch's have the same weights: the one that is asked for is compared.
  std::vector<at::Tensor> both;
  for (int direction = 0; direction < 2; ++direction) {
    both.insert(both.end(), weights.begin(), weights.begin() + (biases ? 4 : 2));
  }
  const std::vector<at::Tensor> states = {torch::stack({h, h}), torch::stack({c, c})};
  const auto [y, hy, cy] = torch::lstm(x, states, both, biases, 1, 0.0, false, true, false);
  const std::int64_t which = reverse ? 1 : 0;
  REQUIRE(results.size() == 3);
  CHECK(
      torch::allclose(results[0], y.slice(2, which * kHidden, (which + 1) * kHidden), 1e-4, 1e-5));
  CHECK(torch::allclose(results[1], hy[which], 1e-4, 1e-5));
  CHECK(torch::allclose(results[2], cy[which], 1e-4, 1e-5));
}

}  // namespace
}  // namespace kiln::codegen

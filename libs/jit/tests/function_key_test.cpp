// What the key of a function in the cache is made of.

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <functional>
#include <utility>

#include "function_cache.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "module_state.hpp"

namespace kiln {
namespace {

TEST_CASE("CA-05 whatever a call is like is in the key of a function with an identity",
          "[jit][function_key]") {
  const Scratch scratch("layer");
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  const torch::Tensor x = torch::randn({2, 4});
  const auto start = [&](const CompileOptions& options, const torch::Tensor& input) {
    const auto fast = compile(net, options);
    fast(input).sum().backward();
    return origin(fast);
  };
  CHECK(start(scratch.options, x) == Origin::kTraced);
  CHECK(start(scratch.options, x) == Origin::kCached);

  CHECK(start(scratch.options, torch::randn({3, 4})) == Origin::kTraced);
  CHECK(start(scratch.options, torch::randn({2, 8}).slice(1, 0, 4)) == Origin::kTraced);
  CHECK(start(scratch.options, leaf({2, 4})) == Origin::kTraced);
  CompileOptions other = scratch.options;
  other.identity = "layer 2";
  CHECK(start(other, x) == Origin::kTraced);
  other = scratch.options;
  other.memory_budget = 0.5;
  CHECK(start(other, x) == Origin::kTraced);
  other = scratch.options;
  other.keep_mutations_in_graph = false;
  CHECK(start(other, x) == Origin::kTraced);
  net->eval();
  CHECK(start(scratch.options, x) == Origin::kTraced);
  net->train();
  net->parameters()[1].set_requires_grad(false);
  CHECK(start(scratch.options, x) == Origin::kTraced);
  net->parameters()[1].set_requires_grad(true);
  {
    const torch::NoGradGuard no_grad;
    const auto fast = compile(net, scratch.options);
    fast(x);
    CHECK(origin(fast) == Origin::kTraced);
  }
  CHECK(start(scratch.options, x) == Origin::kCached);
}

TEST_CASE("CA-05 whatever a call runs under is in the key of a function with an identity",
          "[jit][function_key]") {
  const Scratch scratch("product");
  const torch::Tensor x = torch::randn({4, 4});
  const auto is_found = [&] {
    const Function fast =
        compile([](const Tensors& in) { return Tensors{in[0].mm(in[0]).sin()}; }, scratch.options);
    fast({x});
    return origin(fast) == Origin::kCached;
  };
  const auto autocast_to = [](at::ScalarType dtype) {
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  };
  at::Context& context = at::globalContext();
  const std::pair<const char*, std::function<void()>> toggles[] = {
      {"autocast to bfloat16", [&] { autocast_to(at::kBFloat16); }},
      {"autocast to half", [&] { autocast_to(at::kHalf); }},
      {"deterministic algorithms", [&] { context.setDeterministicAlgorithms(true, false); }},
      {"no gradients", [] { c10::GradMode::set_enabled(false); }}};
  CHECK_FALSE(is_found());
  CHECK(is_found());

  for (const auto& [name, toggle] : toggles) {
    CAPTURE(name);
    const c10::AutoGradMode grad_mode(true);
    toggle();
    CHECK_FALSE(is_found());
    CHECK(is_found());
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::clear_cache();
    context.setDeterministicAlgorithms(false, false);
  }
  {
    const c10::InferenceMode inference;
    CHECK_FALSE(is_found());
    CHECK(is_found());
  }
  CHECK(is_found());
}

TEST_CASE("CA-05 a module is on a GPU if one of its tensors is", "[jit][function_key]") {
  torch::nn::Linear layer(2, 2);
  CHECK_FALSE(has_cuda_tensor(*layer));
  // Where it is, and nothing else: there need not be a GPU.
  const at::Tensor on_gpu =
      at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                               c10::scalarTypeToTypeMeta(at::kFloat),
                                               c10::Device(c10::kCUDA, 0));
  layer->register_buffer("scale", on_gpu);
  CHECK(has_cuda_tensor(*layer));
}

}  // namespace
}  // namespace kiln

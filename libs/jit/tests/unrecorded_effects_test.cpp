// What a program does that no operator shows.

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/torch.h>

#include <vector>

#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using testing::contains;

TEST_CASE("a program that seeds the generator is refused", "[jit][unrecorded]") {
  torch::manual_seed(7);
  torch::rand({5});
  const at::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  const auto seed = GENERATE(0, 7);  // Another one, and the one that it has.
  const Function fast = compile(
      [&](const Tensors& in) {
        torch::manual_seed(seed);
        return Tensors{in[0] + torch::rand({3})};
      },
      uncached());

  CHECK_THROWS_WITH(fast({torch::zeros({3})}), contains("seeds the default generator"));
  CHECK(torch::equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), before));
}

TEST_CASE("a program that leaves settings changed is refused", "[jit][unrecorded]") {
  const auto dtype = at::autocast::get_autocast_dtype(at::kCPU);
  CHECK_THROWS_WITH(compile(
                        [](const Tensors& in) {
                          c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
                          return Tensors{in[0] + torch::ones({3})};
                        },
                        uncached())({torch::zeros({3})}),
                    contains("default dtype"));
  CHECK(c10::get_default_dtype() == caffe2::TypeMeta::Make<float>());
  CHECK_THROWS_WITH(compile(
                        [](const Tensors& in) {
                          at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
                          return Tensors{in[0] + 1};
                        },
                        uncached())({torch::zeros({3})}),
                    contains("another type"));
  CHECK(at::autocast::get_autocast_dtype(at::kCPU) == dtype);
}

TEST_CASE("a program that keeps its argument under another name is refused", "[jit][unrecorded]") {
  torch::Tensor kept;
  const Function fast = compile(
      [&](const Tensors& in) {
        kept = in[0].detach();
        return Tensors{in[0] * 2};
      },
      uncached());

  CHECK_THROWS_WITH(fast({torch::ones({3})}), contains("aten.detach.default"));
}

TEST_CASE("memory that a program borrows is refused if nobody holds it", "[jit][unrecorded]") {
  const Function local = compile(
      [](const Tensors& in) {
        std::vector<float> numbers{2, 3};
        return Tensors{in[0] * torch::from_blob(numbers.data(), {2})};
      },
      uncached());
  CHECK_THROWS_WITH(local({torch::ones({2})}), contains("from_blob"));
  // The backward saves it.
  CHECK_THROWS_WITH(local({torch::ones({2}, torch::requires_grad())}), contains("from_blob"));

  std::vector<float> numbers{2, 3};
  const torch::Tensor held = torch::from_blob(numbers.data(), {2});
  const Function outer =
      compile([&](const Tensors& in) { return Tensors{in[0] * held}; }, traced_once());
  CHECK(torch::equal(outer({torch::ones({2})})[0], torch::tensor({2.0F, 3.0F})));
  numbers[0] = 5;
  CHECK(torch::equal(outer({torch::ones({2})})[0], torch::tensor({5.0F, 3.0F})));
  CHECK(torch::equal(outer({torch::ones({2}, torch::requires_grad())})[0],
                     torch::tensor({5.0F, 3.0F})));

  const torch::Tensor weight = held.detach().requires_grad_();
  const Function trained = compile(
      [&](const Tensors& in) { return Tensors{in[0] * held + in[0] * weight}; }, traced_once());
  CHECK(torch::equal(trained({torch::ones({2})})[0], torch::tensor({10.0F, 6.0F})));
}

TEST_CASE("a list of numbers of which a part is written", "[jit][unrecorded]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor t = torch::tensor(std::vector<float>{0, 2, 3, 4});
    t[0] = in[0].sum();
    t.slice(0, 2).add_(in[0]);
    return Tensors{t * 2};
  };
  const Function fast = compile(function, traced_once());
  for (int i = 0; i < 3; ++i) {
    const torch::Tensor x = torch::randn({2});
    CHECK(torch::allclose(fast({x})[0], function({x})[0]));
  }
}

TEST_CASE("a part of a list of numbers is returned", "[jit][unrecorded]") {
  const auto function = [](const Tensors& in) {
    return Tensors{in[0] + 1, torch::tensor(std::vector<float>{0, 2, 3, 4}).slice(0, 2)};
  };
  const Tensors found = compile(function, uncached())({torch::ones({2})});
  CHECK(torch::equal(found[1], torch::tensor({3.0F, 4.0F})));
}

TEST_CASE("lengths that an operator reads through a pointer are refused", "[jit][unrecorded]") {
  const Function split = compile(
      [](const Tensors& in) {
        const Tensors parts = at::tensor_split(in[0], in[1]);
        return Tensors{parts[0].sum(), parts[1].sum()};
      },
      uncached());
  CHECK_THROWS_WITH(split({torch::ones({6}), torch::tensor({2})}), contains("tensor_split"));

  const Function padded = compile(
      [](const Tensors& in) {
        return Tensors{std::get<0>(at::_pad_packed_sequence(in[0], in[1], false, 0.0, 4))};
      },
      uncached());
  CHECK_THROWS_WITH(padded({torch::randn({5, 2}), torch::tensor({3, 1, 1})}),
                    contains("_pad_packed_sequence"));
}

}  // namespace
}  // namespace kiln

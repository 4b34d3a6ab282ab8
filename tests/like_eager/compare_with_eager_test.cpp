// The comparison itself: every case but the first is wrong in one way, and passes only if that is
// noticed. The first compares the right functions of all others with themselves, so that nothing
// else is what they fail of.

#include "kiln/testing/compare_with_eager.hpp"

#include "every_way.hpp"

namespace kiln::testing {
namespace {

/// Compares a function with a wrong one on `make(requires_grad)`.
void compare(const TensorFunction& right,
             const TensorFunction& wrong,
             const MakeInputs& make,
             bool requires_grad = false) {
  check_like_eager(right, wrong, [&] { return make(requires_grad); });
}

const MakeInputs kMatrix = computed({{2, 3}});

Tensors doubled(const Tensors& in) {
  return {in[0] * 2};
}

Tensors written(const Tensors& in) {
  in[0].mul_(2);
  return {in[0].sum()};
}

Tensors transposed(const Tensors& in) {
  in[0].t_();
  return {in[0].sum()};
}

Tensors seen(const Tensors& in) {
  return {in[0].view({-1})};
}

Tensors given_back(const Tensors& in) {
  return {in[0]};
}

Tensors twice_the_same_memory(const Tensors& in) {
  const torch::Tensor y = in[0] * 2;
  return {y, y.view({-1})};
}

Tensors impossible(const Tensors& in) {
  return {in[0].view({7})};
}

TEST_CASE("every right function is like itself", "[like_eager][comparison]") {
  for (const TensorFunction right :
       {doubled, written, transposed, seen, given_back, twice_the_same_memory, impossible}) {
    compare(right, right, kMatrix);
  }
  compare(doubled, doubled, kMatrix, true);
  compare(written, written, kMatrix, true);
}

TEST_CASE("another value is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(doubled, [](const Tensors& in) { return Tensors{in[0] * 2.01}; }, kMatrix);
}

TEST_CASE("another dtype is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled, [](const Tensors& in) { return Tensors{(in[0] * 2).to(torch::kDouble)}; }, kMatrix);
}

TEST_CASE("other strides are noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled,
      [](const Tensors& in) { return Tensors{(in[0].t() * 2).contiguous().t()}; },
      kMatrix);
}

TEST_CASE("a result more is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(doubled, [](const Tensors& in) { return Tensors{in[0] * 2, in[0] * 2}; }, kMatrix);
}

TEST_CASE("a result without history is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(doubled, [](const Tensors& in) { return Tensors{(in[0] * 2).detach()}; }, kMatrix, true);
}

TEST_CASE("another gradient is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled, [](const Tensors& in) { return Tensors{in[0] + in[0].detach()}; }, kMatrix, true);
}

TEST_CASE("a write that is left out is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(written, [](const Tensors& in) { return Tensors{(in[0] * 2).sum()}; }, kMatrix);
}

TEST_CASE("a write behind the version counter is noticed",
          "[like_eager][comparison][!shouldfail]") {
  compare(
      written,
      [](const Tensors& in) {
        in[0].variable_data().mul_(2);
        return Tensors{in[0].sum()};
      },
      kMatrix);
}

TEST_CASE("a write that is one too many is noticed, though it changes nothing",
          "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled,
      [](const Tensors& in) {
        in[0].add_(0);
        return Tensors{in[0] * 2};
      },
      kMatrix);
}

TEST_CASE("a write without history is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      written,
      [](const Tensors& in) {
        in[0].detach().mul_(2);
        return Tensors{in[0].sum()};
      },
      kMatrix,
      true);
}

TEST_CASE("an argument with other geometry is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(transposed, [](const Tensors& in) { return Tensors{in[0].sum()}; }, kMatrix);
}

TEST_CASE("a copy in the place of a view is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(seen, [](const Tensors& in) { return Tensors{in[0].view({-1}).clone()}; }, kMatrix);
}

TEST_CASE("a view in the place of the tensor itself is noticed",
          "[like_eager][comparison][!shouldfail]") {
  compare(given_back, [](const Tensors& in) { return Tensors{in[0].view({2, 3})}; }, kMatrix);
}

TEST_CASE("results that no longer share memory are noticed",
          "[like_eager][comparison][!shouldfail]") {
  compare(
      twice_the_same_memory,
      [](const Tensors& in) { return Tensors{in[0] * 2, (in[0] * 2).view({-1})}; },
      kMatrix);
}

TEST_CASE("a draw more is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled,
      [](const Tensors& in) {
        (void)torch::rand({1});
        return doubled(in);
      },
      kMatrix);
}

TEST_CASE("a grad mode that is left changed is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(
      doubled,
      [](const Tensors& in) {
        Tensors result = doubled(in);
        c10::GradMode::set_enabled(!c10::GradMode::is_enabled());
        return result;
      },
      kMatrix);
}

TEST_CASE("memory that is kept is noticed", "[like_eager][comparison][!shouldfail]") {
  Tensors kept;
  compare(
      doubled,
      [&](const Tensors& in) {
        kept = doubled(in);
        return kept;
      },
      kMatrix);
}

TEST_CASE("an error that does not come is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(impossible, doubled, kMatrix);
}

TEST_CASE("an error that should not come is noticed", "[like_eager][comparison][!shouldfail]") {
  compare(doubled, impossible, kMatrix);
}

}  // namespace
}  // namespace kiln::testing

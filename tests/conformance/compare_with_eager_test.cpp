// The comparison itself: every case but the first is wrong in one way, and that must be what is
// said of it. The first compares the right functions of all others with themselves.

#include "kiln/testing/compare_with_eager.hpp"

#include "every_way.hpp"

namespace kiln::testing {
namespace {

using Sentences = std::vector<std::string>;

/// What the comparison says of a wrong function, on a matrix that requires grad or not.
Sentences compare(const TensorFunction& right,
                  const TensorFunction& wrong,
                  bool requires_grad = false) {
  return differences_from_eager(right, wrong, [&] { return computed({{2, 3}})(requires_grad); });
}

/// Checks that a wrong function differs, and that `sentence` begins what is said first.
void check_noticed(const std::string& sentence,
                   const TensorFunction& right,
                   const TensorFunction& wrong,
                   bool requires_grad = false) {
  const Sentences differences = compare(right, wrong, requires_grad);
  REQUIRE_FALSE(differences.empty());
  CHECK(differences.front().substr(0, sentence.size()) == sentence);
}

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

TEST_CASE("every right function is like itself", "[conformance][comparison]") {
  for (const TensorFunction right :
       {doubled, written, transposed, seen, given_back, twice_the_same_memory, impossible}) {
    CHECK(compare(right, right) == Sentences());
  }
  CHECK(compare(doubled, doubled, true) == Sentences());
  CHECK(compare(written, written, true) == Sentences());
}

TEST_CASE("another value is noticed", "[conformance][comparison]") {
  check_noticed("result 0: the elements differ", doubled, [](const Tensors& in) {
    return Tensors{in[0] * 2.01};
  });
}

TEST_CASE("another dtype noticed", "[conformance][comparison]") {
  check_noticed("result 0: dtype Double, not Float", doubled, [](const Tensors& in) {
    return Tensors{(in[0] * 2).to(torch::kDouble)};
  });
}

TEST_CASE("other strides are noticed", "[conformance][comparison]") {
  check_noticed("result 0: strides [1, 2], not [3, 1]", doubled, [](const Tensors& in) {
    return Tensors{(in[0].t() * 2).contiguous().t()};
  });
}

TEST_CASE("a result more is noticed", "[conformance][comparison]") {
  check_noticed("the call: number of results 2, not 1", doubled, [](const Tensors& in) {
    return Tensors{in[0] * 2, in[0] * 2};
  });
}

TEST_CASE("a result without history is noticed", "[conformance][comparison]") {
  check_noticed(
      "result 0: requires_grad false, not true",
      doubled,
      [](const Tensors& in) { return Tensors{(in[0] * 2).detach()}; },
      true);
}

TEST_CASE("another gradient is noticed", "[conformance][comparison]") {
  check_noticed(
      "backward through result 0, gradient of leaf 0: the elements differ",
      doubled,
      [](const Tensors& in) { return Tensors{in[0] + in[0].detach()}; },
      true);
}

TEST_CASE("a write that is left out is noticed", "[conformance][comparison]") {
  check_noticed("argument 0: the elements differ", written, [](const Tensors& in) {
    return Tensors{(in[0] * 2).sum()};
  });
}

TEST_CASE("a write behind the version counter is noticed", "[conformance][comparison]") {
  check_noticed("argument 0: version raised false, not true", written, [](const Tensors& in) {
    in[0].variable_data().mul_(2);
    return Tensors{in[0].sum()};
  });
}

TEST_CASE("a write that is one too many is noticed, though it changes nothing",
          "[conformance][comparison]") {
  check_noticed("argument 0: version raised true, not false", doubled, [](const Tensors& in) {
    in[0].add_(0);
    return Tensors{in[0] * 2};
  });
}

TEST_CASE("a write without history is noticed", "[conformance][comparison]") {
  check_noticed(
      "backward through result 0, gradient of leaf 0: the elements differ",
      written,
      [](const Tensors& in) {
        in[0].detach().mul_(2);
        return Tensors{in[0].sum()};
      },
      true);
}

TEST_CASE("an argument with other geometry is noticed", "[conformance][comparison]") {
  check_noticed("argument 0: shape [2, 3], not [3, 2]", transposed, [](const Tensors& in) {
    return Tensors{in[0].sum()};
  });
}

TEST_CASE("a copy in the place of a view is noticed", "[conformance][comparison]") {
  check_noticed("arguments and results: relation of 1: same as 1, not ",
                seen,
                [](const Tensors& in) { return Tensors{in[0].view({-1}).clone()}; });
}

TEST_CASE("a view in the place of the tensor itself is noticed", "[conformance][comparison]") {
  check_noticed("arguments and results: relation of 1: same as 1, ",
                given_back,
                [](const Tensors& in) { return Tensors{in[0].view({2, 3})}; });
}

TEST_CASE("results that no longer share memory are noticed", "[conformance][comparison]") {
  check_noticed("arguments and results: relation of 2: same as 2, not ",
                twice_the_same_memory,
                [](const Tensors& in) { return Tensors{in[0] * 2, (in[0] * 2).view({-1})}; });
}

TEST_CASE("a draw more is noticed", "[conformance][comparison]") {
  check_noticed("the random generator: the elements differ", doubled, [](const Tensors& in) {
    (void)torch::rand({1});
    return doubled(in);
  });
}

TEST_CASE("a grad mode that is left changed is noticed", "[conformance][comparison]") {
  check_noticed("the call: grad mode afterwards false, not true", doubled, [](const Tensors& in) {
    Tensors result = doubled(in);
    c10::GradMode::set_enabled(!c10::GradMode::is_enabled());
    return result;
  });
}

TEST_CASE("memory that is kept is noticed", "[conformance][comparison]") {
  Tensors kept;
  check_noticed("the end: memory kept 1, not 0", doubled, [&](const Tensors& in) {
    kept = doubled(in);
    return kept;
  });
}

TEST_CASE("an error that does not come is noticed", "[conformance][comparison]") {
  check_noticed("the call: only eager throws: ", impossible, doubled);
}

TEST_CASE("an error that should not come is noticed", "[conformance][comparison]") {
  check_noticed("the call: only compiled throws: ", doubled, impossible);
}

}  // namespace
}  // namespace kiln::testing

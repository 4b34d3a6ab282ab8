// Training through memory that is written: arguments that overlap, views of them, and random
// programs of both. An error may come only where eager has one.
//
// KILN_WRITES_PROGRAMS=N runs N random programs, KILN_WRITES_FIRST=S begins at seed S.

#include <cstdlib>
#include <random>
#include <sstream>

#include "every_way.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::testing {
namespace {

Tensors two_slices_and_base(const torch::Tensor& base) {
  return {base.slice(0, 0, 4), base.slice(0, 2, 6), base};
}

TEST_CASE("of three arguments that overlap one is multiplied, and the others are returned",
          "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(3);
    return Tensors{in[1], in[2]};
  };

  check_every_way(function, views({8}, two_slices_and_base));
}

TEST_CASE("of three arguments that overlap one is multiplied, and the others are used",
          "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    in[0].mul_(3);
    return Tensors{in[1].exp(), in[2].sin(), in[1]};
  };

  check_every_way(function, views({8}, two_slices_and_base));
}

TEST_CASE("CG-10 copies between arguments happen in the program's order", "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    in[0].copy_(in[1]);
    in[1].mul_(3);
    in[2].add_(in[0]);
    in[0].copy_(in[2] - in[1]);
    in[1].copy_(in[0]);
    return Tensors{in[0] + in[2]};
  };

  check_every_way(function, computed({{4}, {4}, {4}}));
}

TEST_CASE("an argument is read, written in part, read again and written once more",
          "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor before = in[0].exp();
    in[0].slice(0, 1, 3).mul_(2);
    const torch::Tensor between = in[0].sigmoid() * before;
    in[0].add_(1);
    return Tensors{before, between};
  };

  check_every_way(function, computed({{4}}));
}

TEST_CASE("a tensor is read, written in part, read again and written once more",
          "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor x = in[0] * 2;
    const torch::Tensor before = x.exp();
    x.slice(0, 1, 3).mul_(2);
    const torch::Tensor between = x.sigmoid() * before;
    x.add_(1);
    return Tensors{before, between, x};
  };

  check_every_way(function, leaves({{4}}));
}

TEST_CASE("an expanded argument is written where its elements do not repeat",
          "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    in[0].slice(0, 2, 3).mul_(2);
    return Tensors{in[0].exp(), in[0].select(0, 0)};
  };

  check_every_way(function, views({4}, [](const torch::Tensor& base) {
                    return Tensors{base.unsqueeze(0).expand({3, 4})};
                  }));
}

TEST_CASE("an expanded argument that is no view cannot be written", "[conformance][writes]") {
  const Function compiled = compile([](const Tensors& in) {
    in[0].slice(0, 2, 3).mul_(2);
    return Tensors{in[0].exp()};
  });
  torch::Tensor expanded = torch::empty({0});
  expanded.set_(torch::ones({4}).storage(), 0, {3, 4}, {0, 1});

  const auto error = detail::error_of([&] { compiled({expanded}); });

  REQUIRE(error);
  CHECK(error->find("is an expanded input") != std::string::npos);
}

TEST_CASE("a real argument is written through its complex view", "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    at::view_as_complex(in[0]).mul_(c10::complex<double>(1, 2));
    return Tensors{in[0].exp()};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor leaf =
        torch::randn({3, 2}, torch::dtype(torch::kDouble).requires_grad(requires_grad));
    return Inputs({leaf}, {leaf * 1});
  });
}

TEST_CASE("a complex argument is written through its real view", "[conformance][writes]") {
  const auto function = [](const Tensors& in) {
    at::view_as_real(in[0]).select(1, 0).mul_(3);
    return Tensors{in[0] * in[0]};
  };

  check_every_way(function, [](bool requires_grad) {
    const torch::Tensor leaf =
        torch::randn({3}, torch::dtype(torch::kComplexDouble).requires_grad(requires_grad));
    return Inputs({leaf}, {leaf * 1});
  });
}

}  // namespace
}  // namespace kiln::testing

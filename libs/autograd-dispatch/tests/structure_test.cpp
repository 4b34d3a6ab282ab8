#include "kiln/autograd_dispatch/structure.hpp"

#include <torch/torch.h>

#include <limits>

#include "kiln/autograd_dispatch/values.hpp"
#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::autograd_dispatch {
namespace {

using Value = std::tuple<std::int64_t,
                         double,
                         std::string,
                         std::optional<bool>,
                         std::vector<std::pair<at::Tensor, float>>,
                         std::map<std::string, at::Tensor>>;

TEST_CASE("AD-12 AD-13 numbers, strings, lists and dictionaries come back as they were",
          "[autograd-dispatch][structure]") {
  const at::Tensor a = torch::ones({2});
  const at::Tensor b = torch::zeros({3});
  const Value value(-3,
                    0.1,
                    "a string of 4 words",
                    true,
                    {{a, 0.5F}, {at::Tensor(), std::numeric_limits<float>::infinity()}},
                    {{"", a}, {"b", b}});

  const Flat flat = take_apart(value);
  const Value again = put_together<Value>(flat);

  REQUIRE(flat.tensors.size() == 4);
  CHECK(std::get<0>(again) == -3);
  CHECK(std::get<1>(again) == 0.1);
  CHECK(std::get<2>(again) == "a string of 4 words");
  CHECK(std::get<3>(again) == std::optional(true));
  CHECK(std::get<4>(again)[0].first.is_same(a));
  CHECK_FALSE(std::get<4>(again)[1].first.defined());
  CHECK(std::get<4>(again)[1].second == std::numeric_limits<float>::infinity());
  CHECK(std::get<5>(again).at("b").is_same(b));
  CHECK(take_apart(again).structure == flat.structure);
}

TEST_CASE("values of other numbers or lengths have another structure",
          "[autograd-dispatch][structure]") {
  const at::Tensor a = torch::ones({2});

  CHECK(take_apart(std::pair(a, 1)).structure ==
        take_apart(std::pair(torch::zeros({5}), 1)).structure);
  CHECK(take_apart(std::pair(a, 1)).structure != take_apart(std::pair(a, 2)).structure);
  CHECK(take_apart(Tensors{a}).structure != take_apart(Tensors{a, a}).structure);
}

TEST_CASE("a structure of another type is refused", "[autograd-dispatch][structure]") {
  const Flat flat = take_apart(std::pair(torch::ones({2}), 1));

  CHECK_THROWS_AS((put_together<std::pair<int, int>>(flat)), Error);
  CHECK_THROWS_AS((put_together<std::tuple<at::Tensor, int, int>>(flat)), Error);
  CHECK_THROWS_AS((put_together<std::pair<at::Tensor, std::string>>(flat)), Error);
}

}  // namespace
}  // namespace kiln::autograd_dispatch

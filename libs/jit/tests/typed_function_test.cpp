// Functions and modules compiled with the signatures that they have.

#include "kiln/jit/typed_function.hpp"

#include <torch/torch.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {

/// Two tensors by name, and a number that belongs to them.
struct Boxes {
  torch::Tensor corners, sizes;
  int count = 0;
};

template <>
struct autograd_dispatch::ValueTraits<Boxes> {
  static constexpr const char* kName = "boxes";
  static auto flatten(const Boxes& boxes) {
    return std::tuple(boxes.corners, boxes.sizes, boxes.count);
  }
  static Boxes unflatten(torch::Tensor corners, torch::Tensor sizes, int count) {
    return {std::move(corners), std::move(sizes), count};
  }
};

namespace {

using testing::contains;

bool close(const torch::Tensor& found, const torch::Tensor& expected) {
  return torch::allclose(found, expected, 1e-4, 1e-5);
}

torch::Tensor gated(torch::Tensor x, torch::Tensor gate) {
  return x * gate.sigmoid();
}

struct ScaledPair {
  double by = 2;
  torch::Tensor operator()(const torch::Tensor& x, double bias = 1) const { return x * by + bias; }
};

// NOLINTNEXTLINE(cppcoreguidelines-special-member-functions)
struct NetImpl : torch::nn::Module {
  NetImpl() : first(register_module("first", torch::nn::Linear(4, 4))) {}

  torch::Tensor forward(torch::Tensor& x, bool twice = false, double scale = 1) {
    const torch::Tensor y = first(x) * scale;
    return twice ? first(y) : y;
  }

  torch::nn::Linear first;
};
TORCH_MODULE(Net);

struct DetectorImpl : torch::nn::Module {
  std::map<std::string, torch::Tensor> forward(const torch::Tensor& a,
                                               const torch::Tensor& b,
                                               const torch::Tensor& c,
                                               const torch::Tensor& d,
                                               const std::optional<torch::Tensor>& e) {
    return {{"sum", a + b + c}, {"product", e ? d * *e : d}};
  }
};

template <class F, class... Arguments>
concept TakesList = requires(const F& f, const torch::Tensor& x) { f({x}); };
template <class F>
concept TakesLists = requires(const F& f, const torch::Tensor& x) { f({x, x}); };
template <class F, class... Arguments>
concept Takes = std::invocable<const F&, Arguments...>;

TEST_CASE("a function is called compiled as it is called itself", "[jit][typed_function]") {
  const torch::Tensor x = torch::randn({3, 4}), y = torch::randn({3, 4});

  const auto fast = compile(gated, uncached());
  const torch::Tensor found = fast(x, y);

  CHECK(close(found, gated(x, y)));
  CHECK(close(fast(y, x), gated(y, x)));
  CHECK(fast.report().versions == 1);
}

TEST_CASE("lambdas and functors are compiled with what they capture", "[jit][typed_function]") {
  torch::nn::Linear linear(4, 4);
  const torch::Tensor x = torch::randn({2, 4}), y = torch::randn({2, 4});

  const auto lambda = compile([&](torch::Tensor in) { return linear(in).relu(); }, uncached());
  const auto functor = compile(ScaledPair{.by = 3}, uncached());
  const auto unsaid = compile([](const auto& a, const auto& b) { return a - b; }, uncached());

  for (const torch::Tensor& in : {x, y}) {
    CHECK(close(lambda(in), linear(in).relu()));
    CHECK(close(functor(in), in * 3 + 1));
    CHECK(close(functor(in, 5), in * 3 + 5));
    CHECK(close(unsaid(in, x), in - x));
  }
}

TEST_CASE("a typed function trains: its arguments and what it captures get their gradients",
          "[jit][typed_function]") {
  torch::nn::Linear linear(4, 4);
  const torch::Tensor x = torch::randn({2, 4}, torch::requires_grad());
  linear(x).tanh().sum().backward();
  const torch::Tensor of_x = x.grad().clone(), of_weight = linear->weight.grad().clone();
  x.mutable_grad().reset();
  linear->zero_grad();

  const auto fast = compile([&](const torch::Tensor& in) { return linear(in).tanh(); }, uncached());
  fast(x).sum().backward();

  CHECK(close(x.grad(), of_x));
  CHECK(close(linear->weight.grad(), of_weight));
}

TEST_CASE("lists in braces do not compile where a tensor is expected", "[jit][typed_function]") {
  const auto typed = compile(gated, uncached());
  const auto of_list = compile([](const Tensors& in) { return in[0] + 1; }, uncached());
  const auto list = compile([](const Tensors& in) { return Tensors{in[0] + 1}; }, uncached());

  static_assert(!TakesList<decltype(typed)> && !TakesLists<decltype(typed)>);
  static_assert(!TakesList<decltype(of_list)> && !TakesLists<decltype(of_list)>);
  static_assert(!TakesList<decltype(compile(std::declval<torch::nn::Linear>()))>);
  static_assert(!TakesList<decltype(compile(std::declval<torch::nn::Sequential>()))>);
  static_assert(std::is_same_v<decltype(list), const Function> && TakesList<decltype(list)>);
  static_assert(Takes<decltype(typed), torch::Tensor, torch::Tensor>);
  static_assert(!Takes<decltype(typed), torch::Tensor> && !Takes<decltype(typed), Tensors>);
  const torch::Tensor x = torch::randn({3});
  CHECK(close(list({x})[0], x + 1));
  CHECK(close(of_list(Tensors{x}), x + 1));
}

TEST_CASE("a function returns one tensor, a pair, a tuple, a vector, a map or a struct",
          "[jit][typed_function]") {
  const auto pair =
      compile([](const torch::Tensor& x) { return std::pair(x + 1, x * 2); }, uncached());
  const auto vector = compile([](const torch::Tensor& x) { return x.unbind(0); }, uncached());
  const auto map = compile(
      [](const torch::Tensor& x) {
        return std::map<std::string, std::tuple<torch::Tensor, int>>{{"a", {x.exp(), 3}}};
      },
      uncached());
  const auto record = compile(
      [](const torch::Tensor& x) { return Boxes{x - 1, x + 1, static_cast<int>(x.size(0))}; },
      uncached());

  for (int call = 0; call < 2; ++call) {
    const torch::Tensor x = torch::randn({2, 3});
    const auto [sum, product] = pair(x);
    CHECK(close(sum, x + 1));
    CHECK(close(product, x * 2));
    const Tensors rows = vector(x);
    REQUIRE(rows.size() == 2);
    CHECK(close(rows[1], x[1]));
    CHECK(close(std::get<0>(map(x).at("a")), x.exp()));
    CHECK(std::get<1>(map(x).at("a")) == 3);
    const Boxes boxes = record(x);
    CHECK(close(boxes.sizes, x + 1));
    CHECK(boxes.count == 2);
  }
  CHECK(vector(torch::randn({5, 3})).size() == 5);
}

TEST_CASE("another number, flag or word as an argument makes another version",
          "[jit][typed_function]") {
  const auto function = [](const torch::Tensor& x,
                           double scale,
                           bool add,
                           const at::Scalar& bias,
                           const std::string& mode) {
    const torch::Tensor y = mode == "sine" ? x.sin() * scale : x * scale;
    return add ? y + bias : y;
  };
  const auto fast = compile(function, uncached());
  int versions = 0;
  const auto check = [&](double scale, bool add, const at::Scalar& bias, const std::string& mode) {
    const torch::Tensor x = torch::arange(3);
    const torch::Tensor found = fast(x, scale, add, bias, mode);
    const torch::Tensor expected = function(x, scale, add, bias, mode);
    CHECK(found.dtype() == expected.dtype());
    CHECK(close(found, expected));
    return fast.report().versions;
  };

  for (int call = 0; call < 2; ++call) {
    versions = check(2, true, 1, "sine");
    versions = check(0.5, true, 1, "sine");
    versions = check(2, false, 1, "sine");
    versions = check(2, true, 1.5, "sine");
    versions = check(2, true, 1, "none");
  }
  CHECK(versions == 5);
}

TEST_CASE("numbers that never repeat do not compile without end", "[jit][typed_function]") {
  CompileOptions options = uncached();
  options.max_versions = 2;
  const auto function = [](const torch::Tensor& x, double step) { return x * step; };
  const auto lenient = compile(function, options);
  options.error_at_max_versions = true;
  const auto strict = compile(function, options);
  const torch::Tensor x = torch::randn({3});

  for (int step = 0; step < 2; ++step) {
    CHECK(close(strict(x, step), x * step));
  }
  CHECK_THROWS_WITH(strict(x, 2), contains("as a tensor, raise max_versions"));
  for (int step = 0; step < 5; ++step) {
    CHECK(close(lenient(x, step), x * step));
  }
  CHECK(lenient.report().versions == 2);
}

TEST_CASE("versions for other numbers and for other shapes count together",
          "[jit][typed_function]") {
  CompileOptions options = uncached();
  options.max_versions = 3;
  const auto function = [](const torch::Tensor& x, double step) {
    if (step < 0) {
      throw std::invalid_argument("a negative step");
    }
    return x * step;
  };
  const auto lenient = compile(function, options);
  options.error_at_max_versions = true;
  const auto strict = compile(function, options);
  const torch::Tensor three = torch::randn({3}), four = torch::randn({4});
  const auto agrees = [&](const auto& fast, const torch::Tensor& x, double step) {
    return close(fast(x, step), function(x, step));
  };

  CHECK_THROWS_AS(strict(three, -1), std::invalid_argument);  // Not compiled, so not counted.
  for (int call = 0; call < 2; ++call) {
    CHECK(agrees(strict, three, 1));
    CHECK(agrees(strict, four, 1));
    CHECK(agrees(strict, three, 2));
    CHECK_THROWS_WITH(strict(four, 2), contains("max_versions = 3") && contains("dimension 0: 4"));
    CHECK_THROWS_WITH(strict(three, 3), contains("max_versions = 3") && contains("non-tensor"));
  }
  CHECK(strict.report().versions == 3);
  for (int step = 0; step < 4; ++step) {
    CHECK(agrees(lenient, three, step));
    CHECK(agrees(lenient, four, step));
  }
  CHECK(lenient.report().versions == 3);
}

TEST_CASE("FA-10 a typed function takes the options of its scope", "[jit][typed_function]") {
  CompileOptions options = uncached();
  options.max_versions = 1;
  options.error_at_max_versions = true;
  const DefaultOptions scope(options);

  const auto fast = compile([](const torch::Tensor& x) { return std::pair(x.sin(), 1); });
  fast(torch::ones({1}));

  CHECK_THROWS_AS(fast(torch::ones({2})), Error);
}

TEST_CASE("a module is called compiled as its forward is, defaults and flags included",
          "[jit][typed_function]") {
  Net net;
  const std::shared_ptr<NetImpl> pointer = net.ptr();
  const auto of_holder = compile(net, uncached());
  const auto of_pointer = compile(pointer, uncached());

  for (int call = 0; call < 2; ++call) {
    torch::Tensor x = torch::randn({2, 4});
    CHECK(close(of_holder(x), net->forward(x)));
    CHECK(close(of_holder(x, true), net->forward(x, true)));
    CHECK(close(of_pointer(x, false, 0.5), net->forward(x, false, 0.5)));
  }
  CHECK(of_holder.report().versions == 2);
  static_assert(!Takes<decltype(of_holder)>);

  torch::Tensor x = torch::randn({2, 4});
  of_holder(x).sum().backward();
  CHECK(close(net->first->bias.grad(), torch::full({4}, 2.0)));
}

TEST_CASE("a module that is trained and evaluated is compiled for both", "[jit][typed_function]") {
  torch::nn::Dropout dropout(0.5);
  const auto fast = compile(dropout, uncached());
  const torch::Tensor x = torch::ones({64});

  CHECK_FALSE(torch::equal(fast(x), x));
  dropout->eval();
  CHECK(torch::equal(fast(x), x));
}

TEST_CASE("an LSTM is compiled with and without its state", "[jit][typed_function]") {
  torch::nn::LSTM lstm(8, 8);
  const auto fast = compile(lstm, uncached());
  const torch::Tensor x = torch::randn({5, 2, 8});
  const auto state = std::tuple(torch::randn({1, 2, 8}), torch::randn({1, 2, 8}));

  for (int call = 0; call < 2; ++call) {
    const auto [output, last] = fast(x);
    const auto [expected, expected_last] = lstm(x);
    CHECK(close(output, expected));
    CHECK(close(std::get<1>(last), std::get<1>(expected_last)));
    CHECK(close(std::get<0>(fast(x, state)), std::get<0>(lstm->forward(x, state))));
  }
}

TEST_CASE("a forward of five tensors that returns a map is compiled", "[jit][typed_function]") {
  const auto detector = std::make_shared<DetectorImpl>();
  const auto fast = compile(detector, uncached());
  const Tensors in = torch::randn({5, 3}).unbind(0);

  const auto with = fast(in[0], in[1], in[2], in[3], in[4]);
  const auto without = fast(in[0], in[1], in[2], in[3], std::nullopt);

  CHECK(close(with.at("sum"), in[0] + in[1] + in[2]));
  CHECK(close(with.at("product"), in[3] * in[4]));
  CHECK(close(without.at("product"), in[3]));
}

TEST_CASE("what a function writes into its arguments is written", "[jit][typed_function]") {
  const auto fast =
      compile([](torch::Tensor& x, const torch::Tensor& y) { x.add_(y); }, uncached());
  static_assert(std::is_void_v<decltype(fast(torch::Tensor(), torch::Tensor()))>);

  for (int call = 1; call < 3; ++call) {
    const torch::Tensor x = torch::ones({3});
    const auto version = x._version();
    fast(x, torch::full({3}, call));
    CHECK(close(x, torch::full({3}, 1.0 + call)));
    CHECK(x._version() == version + 1);
  }
}

TEST_CASE("an argument that the function assigns to is refused", "[jit][typed_function]") {
  const auto tensor = compile([](torch::Tensor& x) { return x = x + 1; }, uncached());
  const auto number = compile([](torch::Tensor& x, int& n) { return x * ++n; }, uncached());
  const auto copy = compile([](torch::Tensor x) { return x = x + 1; }, uncached());
  const torch::Tensor x = torch::ones({3});

  CHECK_THROWS_WITH(tensor(x), contains("assigns to parameter 0") && contains("return the new"));
  CHECK_THROWS_WITH(number(x, 1), contains("assigns to parameter 1"));
  CHECK(close(copy(x), x + 1));
}

TEST_CASE("a typed function is prepared without a call, and reports", "[jit][typed_function]") {
  int runs = 0;
  const auto fast = compile(
      [&](const torch::Tensor& x, int n) {
        ++runs;
        return x * n;
      },
      uncached());

  fast.prepare(torch::zeros({3}), 4);
  const int traced = runs;
  const torch::Tensor found = fast(torch::ones({3}), 4);

  CHECK(traced > 0);
  CHECK(runs == traced);
  CHECK(close(found, torch::full({3}, 4.0)));
  REQUIRE(fast.report().details.size() == 1);
  CHECK(fast.report().details[0].guards.back() == "arguments: tensor integer ");
}

TEST_CASE("CA-02 a typed function with an identity starts without a trace, number by number",
          "[jit][typed_function]") {
  const TemporaryDirectory directory;
  CompileOptions options;
  options.cache_directory = directory.path();
  options.identity = "scaled";
  const auto origins = [&](double scale) {
    const auto fast = compile(
        [](const torch::Tensor& x, double by) { return std::pair(x * by, x + by); }, options);
    const torch::Tensor x = torch::randn({3});
    for (int call = 0; call < 2; ++call) {
      CHECK(close(fast(x, scale).first, x * scale));
    }
    return fast.report().details.at(0).origin;
  };

  CHECK(origins(2) == Origin::kTraced);
  CHECK(origins(2) == Origin::kCached);
  CHECK(origins(3) == Origin::kTraced);
}

TEST_CASE("a module and a function that calls it are compiled with the module's guards",
          "[jit][typed_function]") {
  torch::nn::Linear linear(4, 2);
  const auto loss = compile(
      linear,
      [linear](const torch::Tensor& x, const torch::Tensor& y) mutable {
        return torch::mse_loss(linear(x), y);
      },
      uncached());
  const torch::Tensor x = torch::randn({3, 4}), y = torch::randn({3, 2});

  CHECK(close(loss(x, y), torch::mse_loss(linear(x), y)));
  linear->weight.set_requires_grad(false);
  CHECK(close(loss(x, y), torch::mse_loss(linear(x), y)));
  CHECK(loss.report().versions == 2);
}

TEST_CASE("nothing to compile is an error at once", "[jit][typed_function]") {
  torch::Tensor (*nowhere)(torch::Tensor) = nullptr;

  CHECK_THROWS_WITH(compile(nowhere), contains("no function to compile"));
  CHECK_THROWS_WITH(compile(std::function<torch::Tensor(torch::Tensor)>()),
                    contains("no function to compile"));
  CHECK_THROWS_WITH(compile(std::shared_ptr<NetImpl>()), contains("no function to compile"));
}

}  // namespace
}  // namespace kiln

#include "kiln/ir/generalize.hpp"

#include <functional>
#include <string>
#include <vector>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

constexpr std::int64_t kSizes[] = {5, 7, 12, 16, 23, 64, 91, 200};

std::vector<Bindings> samples() {
  std::vector<Bindings> made;
  for (const std::int64_t size : kSizes) {
    made.push_back({{"s0", size}});
  }
  return made;
}

using Program = std::function<std::string(std::int64_t)>;

std::vector<Graph> traces_of(const Program& program) {
  std::vector<Graph> traces;
  for (const std::int64_t size : kSizes) {
    traces.push_back(parse(program(size)));
  }
  return traces;
}

std::string text(std::int64_t number) {
  return std::to_string(number);
}

std::string lines_of(const std::variant<Graph, TraceDifference>& result) {
  const auto* difference = std::get_if<TraceDifference>(&result);
  return difference != nullptr ? difference->what : print(std::get<Graph>(result));
}

TEST_CASE("sizes, strides and arguments that vary become expressions", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + ", 3, 4] user\n  %a: f32[" + text(n) +
           ", 12] = aten.view.default(%x, [" + text(n) + ", 12]) view(0:0)\n  %b: f32[12, " +
           text(n) + "]{1, 12} = aten.t.default(%a) view(0:0)\n  %c: f32[12, " + text(n - 2) +
           "]{1, 12}@24 = aten.slice.Tensor(%b, 1, 2, " + text(n) +
           ", 1) view(0:0)\n  output %c user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK(lines_of(result) == R"(graph g {
  input %x: f32[s0, 3, 4] user
  %a: f32[s0, 12] = aten.view.default(%x, [s0, 12]) view(0:0)
  %b: f32[12, s0]{1, 12} = aten.t.default(%a) view(0:0)
  %c: f32[12, s0 - 2]{1, 12}@24 = aten.slice.Tensor(%b, 1, 2, s0, 1) view(0:0)
  output %c user
}
)");
}

TEST_CASE("sizes that rules give are found where they are no polynomials", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    const std::string halved = text((n - 1) / 2 + 1);
    return "graph g {\n  input %x: f32[1, 3, " + text(n) +
           ", 9] user\n  input %w: f32[8, 3, 3, 3] parameter\n  %a: f32[1, 8, " + halved +
           ", 5] = aten.convolution.default(%x, %w, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1)"
           "\n  %b: f32[8, " +
           text(((n - 1) / 2 + 1) * 5) + "] = aten.reshape.default(%a, [8, " +
           text(((n - 1) / 2 + 1) * 5) + "])\n  output %b user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("f32[1, 8, ((s0 + 1)//2), 5] = aten.conv"));
  CHECK_THAT(lines_of(result), testing::contains("f32[8, 5*((s0 + 1)//2)]"));
}

TEST_CASE("each stride of a tensor with gaps is an expression", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[2, 4, " + text(n) + "] user\n  %a: f32[2, 4, " +
           text(n - 2) + "]{" + text(4 * n) + ", " + text(n) +
           ", 1} = aten.slice.Tensor(%x, 2, 0, " + text(n - 2) +
           ", 1) view(0:0)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("%a: f32[2, 4, s0 - 2]{4*s0, s0, 1} = "));
}

TEST_CASE("a tensor that is dense at one size is not taken for dense", "[ir][generalize]") {
  // The first five columns are all there are at the first size.
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[3, " + text(n) + "] user\n  %a: f32[3, 5]{" + text(n) +
           ", 1} = aten.slice.Tensor(%x, 1, 0, 5, 1) view(0:0)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("%a: f32[3, 5]{s0, 1} = "));
}

TEST_CASE("the first argument may have integers too", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + text(n) +
           "] = aten.full.default([" + text(n) +
           "], 0.5, f32, strided, cpu, false)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("aten.full.default([s0], 0.5"));
}

TEST_CASE("the windows of an average belong to the last dimensions", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[1, 3, " + text(n) + ", 9] user\n  %a: f32[1, 3, " +
           text(n / 2) +
           ", 3] = aten.avg_pool2d.default(%x, [2, 3], [2, 3], [0, 0], false, true, none)\n"
           "  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("%a: f32[1, 3, (s0//2), 3] = "));
}

TEST_CASE("every dimension that is padded has a rule", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    const std::int64_t half = (n + 1) / 2;
    return "graph g {\n  input %x: f32[" + text(n) + ", 4] user\n  %a: f32[" + text(half) +
           ", 4]{8, 1} = aten.slice.Tensor(%x, 0, 0, " + text(n) + ", 2) view(0:0)\n  %b: f32[" +
           text(n + half) + ", 4] = aten.constant_pad_nd.default(%x, [0, 0, " + text(half) +
           ", 0], 0.0)\n  output %b user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  INFO(lines_of(result));
  REQUIRE(std::holds_alternative<Graph>(result));
  CHECK_FALSE(find_difference(std::get<Graph>(result), {{"s0", 33}}, parse(program(33))));
}

TEST_CASE("a slice to the end may end at the largest integer", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + text((n + 1) / 2) +
           "]{2} = aten.slice.Tensor(%x, 0, 0, 9223372036854775807, 2) view(0:0)\n  output %a "
           "user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK_THAT(lines_of(result), testing::contains("f32[((s0 + 1)//2)]"));
}

TEST_CASE("another operator at some sizes is a difference of that trace", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + text(n) + "] = aten." +
           (n < 16 ? "relu" : "sigmoid") + ".default(%x)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  const auto* difference = std::get_if<TraceDifference>(&result);
  REQUIRE(difference != nullptr);
  CHECK(difference->trace == 3U);
  CHECK(difference->what ==
        "operator 0, aten.relu.default is operator 0, aten.sigmoid.default at other sizes");
}

TEST_CASE("another kind of argument at some sizes is a difference", "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + text(n) +
           "] = aten.clamp.default(%x, " + (n < 16 ? "none" : "1.5") +
           ", none)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  const auto* difference = std::get_if<TraceDifference>(&result);
  REQUIRE(difference != nullptr);
  CHECK(difference->trace == 3U);
}

TEST_CASE("numbers that no expression gives are named", "[ir][generalize]") {
  const Program clamped = [](std::int64_t n) {
    const std::string kept = text(std::min<std::int64_t>(n, 20));
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + kept +
           "] = aten.narrow.default(%x, 0, 0, " + kept + ") view(0:0)\n  output %a user\n}\n";
  };
  const Program scaled = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" + text(n) +
           "] = aten.mul.Scalar(%x, " + text(n) + ".5" + (n == 12 ? "1" : "") +
           ")\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());

  CHECK(lines_of(generalize(traces_of(clamped), fitter)) ==
        "operator 0, aten.narrow.default, the argument 3: no expression of the symbols gives 5, 7, "
        "12, 16, 20, 20, 20, 20");
  CHECK(lines_of(generalize(traces_of(scaled), fitter)) ==
        "operator 0, aten.mul.Scalar: the argument 1 is 5.5, and 7.5 at other sizes");
}

TEST_CASE("the stride of one element says nothing", "[ir][generalize]") {
  // libtorch may give a single row any stride.
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + ", 1]{1, " + text(n == 12 ? 1 : n) +
           "} user\n  output %x user\n}\n";
  };
  ExprFitter fitter(samples());

  const auto result = generalize(traces_of(program), fitter);

  CHECK(std::holds_alternative<Graph>(result));
}

TEST_CASE("a sample that was not used confirms the graph or names where it differs",
          "[ir][generalize]") {
  const Program program = [](std::int64_t n) {
    return "graph g {\n  input %x: f32[" + text(n) + "] user\n  %a: f32[" +
           text(n < 300 ? n : 300) + "] = aten.slice.Tensor(%x, 0, 0, " + text(n < 300 ? n : 300) +
           ", 1) view(0:0)\n  output %a user\n}\n";
  };
  ExprFitter fitter(samples());
  const auto general = std::get<Graph>(generalize(traces_of(program), fitter));

  CHECK_FALSE(find_difference(general, {{"s0", 299}}, parse(program(299))));
  CHECK(find_difference(general, {{"s0", 400}}, parse(program(400)))->what ==
        "operator 0, aten.slice.Tensor: the argument 3 is another than at other sizes");
}

constexpr std::int64_t kManySizes[] = {5, 7, 12, 16, 23, 64, 91, 200, 49, 98, 103, 107, 161, 187};

// x times a number, at many sizes.
std::variant<Graph, TraceDifference> generalized_scale(
    const std::function<double(std::int64_t)>& factor, std::vector<Graph>* traces) {
  std::vector<Bindings> sizes;
  for (const std::int64_t n : kManySizes) {
    sizes.push_back({{"s0", n}});
    Graph graph("g");
    const TensorMeta meta{.sizes = {n}, .strides = {1}};
    const ValueId x = graph.add_input("x", meta);
    graph.add_output({.value = graph.add_node("aten.mul.Scalar", {x, factor(n)}, meta)});
    traces->push_back(std::move(graph));
  }
  ExprFitter fitter(sizes, {{"s0", {1, 512}}});
  return generalize(*traces, fitter);
}

TEST_CASE("numbers that are no integers become expressions to the last bit", "[ir][generalize]") {
  std::vector<Graph> traces;
  const auto result = generalized_scale([](auto n) { return 1.0 / double(n); }, &traces);

  CHECK_THAT(lines_of(result), testing::contains("aten.mul.Scalar(%x, divide(1.0, float(s0)))"));
  const auto& general = std::get<Graph>(result);
  CHECK_FALSE(find_difference(general, {{"s0", 7}}, traces[1]));
  const auto difference = find_difference(general, {{"s0", 8}}, traces[1]);
  REQUIRE(difference);
  CHECK(difference->of_real);
  CHECK_FALSE(difference->of_constant);
}

TEST_CASE("a number that is chosen by the size names a trace on each side", "[ir][generalize]") {
  std::vector<Graph> traces;
  const auto result = generalized_scale([](auto n) { return n < 20 ? 0.5 : 0.25; }, &traces);

  const auto& difference = std::get<TraceDifference>(result);
  CHECK(difference.what ==
        "operator 0, aten.mul.Scalar: the argument 1 is 0.5, and 0.25 at other sizes");
  CHECK(difference.trace == 4);
  CHECK(is_on_path_of(traces[0], difference, traces[3]));
  CHECK_FALSE(is_on_path_of(traces[0], difference, traces[5]));
}

TEST_CASE("a number that no formula gives is no branch", "[ir][generalize]") {
  std::vector<Graph> traces;
  const auto result = generalized_scale([](auto n) { return double(n) * 0.1 * 3; }, &traces);

  const auto& difference = std::get<TraceDifference>(result);
  CHECK_FALSE(difference.trace);
  CHECK_THAT(difference.what, testing::contains("the argument 1 is 1.5, and 2.1"));
}

}  // namespace
}  // namespace kiln::ir

#include "kiln/structured.hpp"

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/value_tree.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using nlohmann::json;
using testing::contains;

const char* const kLeaf = R"({"type": null, "context": null, "children_spec": []})";

std::string node(const std::string& type,
                 const std::string& context,
                 const std::vector<std::string>& children) {
  std::string list;
  for (const std::string& child : children) {
    list += (list.empty() ? "" : ", ") + child;
  }
  return R"({"type": "builtins.)" + type + R"(", "context": ")" + context +
         R"(", "children_spec": [)" + list + "]}";
}

// f(x, [y, 2], *, scale, shift={"a": …}) of four tensors, which returns {"sum": …, "parts": (…,
// …)}.
Model make_model(const TemporaryDirectory& folder) {
  ExportedProgram program = export_program(
      [](const Tensors& in) { return Tensors{in[0] * in[2] + in[3], in[1] * in[2]}; },
      {torch::ones({3}), torch::ones({3}), torch::ones({3}), torch::ones({3})});
  const std::string pair = node("list", "null", {kLeaf, kLeaf});
  const std::string shift = node("dict", R"([\"a\"])", {kLeaf});
  const std::string named = node("dict", R"([\"scale\", \"shift\"])", {kLeaf, shift});
  const std::string positional = node("tuple", "null", {kLeaf, pair});
  program.in_spec = "[1, " + node("tuple", "null", {positional, named}) + "]";
  program.out_spec =
      "[1, " + node("dict", R"([\"sum\", \"part\"])", {kLeaf, node("tuple", "null", {kLeaf})}) +
      "]";
  CompileOptions options;
  options.use_cache = false;
  return load(aot_compile(program, folder.path() / "f.pt2", options));
}

c10::IValue pair(const torch::Tensor& y) {
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(y);
  list.push_back(2);
  return list;
}

c10::IValue dictionary(const std::string& key, const torch::Tensor& value) {
  c10::Dict<std::string, torch::Tensor> made;
  made.insert(key, value);
  return made;
}

TEST_CASE("FA-03 a model is called as its program was, and answers in kind", "[kiln][structured]") {
  const TemporaryDirectory folder;
  Model model = make_model(folder);
  const torch::Tensor x = torch::randn({3}), y = torch::randn({3}), scale = torch::randn({3}),
                      shift = torch::randn({3});

  const c10::IValue result =
      call(model, {x, pair(y)}, {{"shift", dictionary("a", shift)}, {"scale", scale}});

  const auto items = result.toGenericDict();
  CHECK(torch::allclose(items.at("sum").toTensor(), x * scale + shift));
  CHECK(torch::allclose(items.at("part").toTupleRef().elements()[0].toTensor(), y * scale));
}

TEST_CASE("FA-11 named arguments come in any order, and each must be there", "[kiln][structured]") {
  const json spec = json::parse(
      node("tuple",
           "null",
           {node("tuple", "null", {kLeaf}),
            node("dict", R"([\"b\", \"a\"])", {kLeaf, node("list", "null", {kLeaf})})}));
  const torch::Tensor x = torch::zeros({1}), a = torch::ones({1}), b = torch::full({1}, 2.0);
  const auto flat = [&](const Values& arguments, const NamedValues& named) {
    return flatten_arguments(spec, arguments, named);
  };
  const c10::IValue listed = c10::List<torch::Tensor>({a});

  const Tensors tensors = flat({x}, {{"a", listed}, {"b", b}});
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].is_same(x));
  CHECK(tensors[1].is_same(b));
  CHECK(tensors[2].is_same(a));

  CHECK_THROWS_WITH(flat({x}, {{"a", listed}}), contains("there is no argument 'b'"));
  CHECK_THROWS_WITH(flat({x}, {{"a", listed}, {"b", b}, {"c", b}}),
                    contains("takes no argument 'c'"));
  CHECK_THROWS_WITH(flat({x}, {{"a", a}, {"b", b}}), contains("argument 'a' must be"));
  CHECK_THROWS_WITH(flat({}, {{"a", listed}, {"b", b}}), contains("1 arguments without names"));
  CHECK_THROWS_WITH(flat({listed}, {{"a", listed}, {"b", b}}), contains("argument 0 must be"));
}

TEST_CASE("integers that vary are passed on, and what was fixed has to be the same",
          "[kiln][structured]") {
  const std::string arguments = node("tuple", "null", {kLeaf, kLeaf, kLeaf, kLeaf, kLeaf});
  const std::string call = node("tuple", "null", {arguments, node("dict", "[]", {})});
  const std::string written = spec_with_numbers(
      "[1, " + call + "]",
      {{.tensor = 0}, {.constant = "5"}, {.tensor = 1}, {.constant = "null"}, {.constant = "true"}},
      {1});
  const json spec = json::parse(written).at(1);
  const torch::Tensor x = torch::ones({2});
  const auto flat = [&](const Values& values) { return flatten_arguments(spec, values, {}); };

  const Tensors tensors = flat({x, 5, 7, {}, true});
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].is_same(x));
  CHECK(torch::equal(tensors[1], torch::tensor(7, torch::kLong)));
  CHECK(tensors[1].dim() == 0);
  CHECK(flat({x, 5, x, {}, true})[1].is_same(x));

  CHECK_THROWS_WITH(flat({x, 6, 7, {}, true}),
                    contains("argument 1 must be or have the value 5, with which"));
  CHECK_THROWS_WITH(flat({x, 5.0, 7, {}, true}),
                    contains("argument 1 must be or have the value 5"));
  CHECK_THROWS_WITH(flat({x, x, 7, {}, true}), contains("argument 1 must be"));
  CHECK_THROWS_WITH(flat({x, 5, 7.5, {}, true}), contains("argument 2 must be or have an integer"));
  CHECK_THROWS_WITH(flat({x, 5, 7, 1, true}), contains("argument 3 must be"));
  CHECK_THROWS_WITH(flat({x, 5, 7, {}, false}), contains("argument 4 must be"));
}

TEST_CASE("a constant that JSON has no number for is compared too", "[kiln][structured]") {
  const std::string arguments = node("tuple", "null", {kLeaf, kLeaf, kLeaf, kLeaf});
  const std::string call = node("tuple", "null", {arguments, node("dict", "[]", {})});
  const std::string written = spec_with_numbers("[1, " + call + "]",
                                                {{.constant = "\"Infinity\""},
                                                 {.constant = "\"-Infinity\""},
                                                 {.constant = "\"NaN\""},
                                                 {.tensor = 0}},
                                                {});
  const json spec = json::parse(written).at(1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  const torch::Tensor x = torch::ones({2});
  const auto flat = [&](const Values& values) { return flatten_arguments(spec, values, {}); };

  CHECK(flat({kInfinity, -kInfinity, nan, x}).size() == 1);
  CHECK_THROWS_WITH(flat({-kInfinity, -kInfinity, nan, x}), contains("argument 0 must be"));
  CHECK_THROWS_WITH(flat({kInfinity, kInfinity, nan, x}), contains("argument 1 must be"));
  CHECK_THROWS_WITH(flat({kInfinity, -kInfinity, 1.0, x}), contains("argument 2 must be"));
}

TEST_CASE("a function of lists, dictionaries and numbers is compiled for each way they are nested",
          "[kiln][structured]") {
  CompileOptions options;
  options.use_cache = false;
  torch::nn::Linear linear(3, 3);
  const ValueFunction function = [linear](const Values& in) mutable {
    torch::Tensor sum = linear(in[0].toTensor());
    for (const torch::Tensor& item : in[1].toTensorVector()) {
      sum = sum + item * in[2].toInt();
    }
    c10::Dict<std::string, torch::Tensor> result;
    result.insert("sum", sum);
    return c10::ivalue::Tuple::create({result, in[2].toInt() + 1, {}});
  };
  const StructuredFunction fast = compile(linear, function, options);
  const torch::Tensor x = torch::randn({2, 3}), y = torch::randn({3});
  const auto check = [&](const Values& arguments) {
    for (int call = 0; call < 2; ++call) {
      const auto expected = function(arguments).toTupleRef().elements().vec();
      const auto found = fast(arguments).toTupleRef().elements().vec();
      REQUIRE(found.size() == 3);
      CHECK(torch::allclose(found[0].toGenericDict().at("sum").toTensor(),
                            expected[0].toGenericDict().at("sum").toTensor(),
                            1e-4,
                            1e-5));
      CHECK(found[1].toInt() == expected[1].toInt());
      CHECK(found[2].isNone());
    }
  };

  check({x, c10::List<torch::Tensor>({y, y * 2}), 3});
  check({x, c10::List<torch::Tensor>({y}), 3});
  check({x, c10::List<torch::Tensor>({y}), 4});
  CHECK(fast.report().versions == 3);  // What it returns depends on the integer.

  const auto result = fast({x, c10::List<torch::Tensor>({y}), 4}).toTupleRef().elements().vec();
  result[0].toGenericDict().at("sum").toTensor().sum().backward();
  CHECK(torch::allclose(linear->bias.grad(), torch::full({3}, 2.0)));
  CHECK(fast.report().versions == 3);
}

TEST_CASE("a value comes back from its tensors and its structure", "[kiln][structured]") {
  const torch::Tensor x = torch::randn({2}), y = torch::randn({3});
  const c10::IValue value = c10::ivalue::Tuple::create(
      {x, c10::List<torch::Tensor>({y, x}), dictionary("k", y), 3, 0.5, "text", true, {}});

  const FlatValue flat = flatten(value);
  const auto again = unflatten(flat.structure, flat.tensors).toTupleRef().elements().vec();

  CHECK(flat.tensors.size() == 4);
  REQUIRE(again.size() == 8);
  CHECK(again[0].toTensor().is_same(x));
  CHECK(again[1].toTensorVector()[0].is_same(y));
  CHECK(again[2].toGenericDict().at("k").toTensor().is_same(y));
  CHECK(again[3].toInt() == 3);
  CHECK(again[4].toDouble() == 0.5);
  CHECK(again[5].toStringRef() == "text");
  CHECK(again[6].toBool());
  CHECK(again[7].isNone());
  CHECK(flatten(c10::ivalue::Tuple::create({x, 4})).structure !=
        flatten(c10::ivalue::Tuple::create({x, 5})).structure);
  CHECK_THROWS_AS(flatten(c10::IValue(c10::Device("cpu"))), Error);
  CHECK_THROWS_AS(unflatten(flat.structure, {x}), Error);
}

TEST_CASE("what JSON cannot say is refused", "[kiln][structured]") {
  const auto tuple = [](double number) { return c10::ivalue::Tuple::create({number}); };
  CHECK_THROWS_WITH(flatten(tuple(std::numeric_limits<double>::infinity())),
                    contains("not finite"));
  CHECK_THROWS_WITH(flatten(tuple(std::nan(""))), contains("not finite"));
  c10::impl::GenericDict by_number(c10::IntType::get(), c10::TensorType::get());
  by_number.insert(1, torch::ones({2}));
  CHECK_THROWS_WITH(flatten(c10::IValue(by_number)), contains("not a string"));
}

TEST_CASE("a structured function that is empty says so when it is used", "[kiln][structured]") {
  const StructuredFunction empty;

  CHECK_THROWS_WITH(empty({torch::ones({2})}), contains("the function is empty"));
  CHECK_THROWS_WITH(empty.report(), contains("the function is empty"));
}

}  // namespace
}  // namespace kiln

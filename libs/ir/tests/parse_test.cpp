#include "kiln/ir/parse.hpp"

#include <random>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

constexpr const char* kEverything = R"kir(# A graph with one of everything.
graph everything {
  symbol %s0 in [2, 1024]   # a symbol
  symbol %s1 in [2, 64] hint 7
  graph body {
    input %a: f32[] user
    output %a user
  }
  input %x: f32[8, s0] user
  input %w: f32[32, 16]#1 parameter "fc1.\"weight\"" grad
  input %n: int(s0) user

  # A comment of its own.
  %t: f32[16, 32]{1, 16}#1 = aten.t.default(%w) view(0:0)
  %o: c64[2*s0 + 1]{4}@(s0 + 3) cuda:1 conj neg grad = a.b.c((1.0-2.0j), [1, s0//2], 1e-05, true, none, "a, b)", f32, cuda:0)
  %a: f32[4, 2], none, %c: f32[] = aten.native_x.default(%x, [%x, none, %t], contiguous_format, strided, @0, []float, []tensor, [true, false])
  %y: f32[8, s0] = aten.add_.Tensor(%x, %x, inf) backward mutates(0) view(0:0) random effectful nograd autocast module "a.b" source "x.cpp:3" sequence 5
  kiln.touch.default(%x, -9223372036854775808)
  output %a user "result"
  output none gradient 0
  output %y mutation 0
  output %c saved
}
)kir";

TEST_CASE("a text with one of everything is read", "[ir][parse]") {
  const Graph graph = parse(kEverything);

  REQUIRE(graph.nodes().size() == 5);
  CHECK(graph.name() == "everything");
  CHECK(graph.symbols().at("s0") == Range{2, 1024});
  CHECK(graph.symbols().at("s1") == Range{2, 64});
  CHECK(graph.hints() == Bindings{{"s1", 7}});
  CHECK(graph.subgraphs().size() == 1);
  CHECK(graph.inputs()[1].name == "fc1.\"weight\"");
  CHECK(graph.tensor(graph.inputs()[1].value).requires_grad);
  CHECK(graph.tensor(graph.inputs()[0].value).strides[0] == Expr::symbol("s0"));

  const Node& odd = graph.nodes()[1];
  const TensorMeta& meta = graph.tensor(odd.results[0]);
  CHECK(meta.conjugate);
  CHECK(meta.negative);
  CHECK(meta.requires_grad);
  CHECK(meta.device == Device{DeviceType::kCuda, 1});
  CHECK(meta.offset == Expr::symbol("s0") + 3);
  CHECK(std::get<std::complex<double>>(odd.arguments[0]) == std::complex(1.0, -2.0));
  CHECK(std::get<double>(odd.arguments[2]) == 1e-05);
  CHECK(std::get<std::string>(odd.arguments[5]) == "a, b)");
  CHECK(std::get<DType>(odd.arguments[6]) == DType::kFloat32);

  const Node& several = graph.nodes()[2];
  CHECK_FALSE(several.results[1].valid());
  CHECK(std::get<std::vector<ValueId>>(several.arguments[1]).size() == 3);
  CHECK(std::get<MemoryFormat>(several.arguments[2]) == MemoryFormat::kContiguous);
  CHECK(std::get<SubgraphRef>(several.arguments[4]).index == 0);
  CHECK(std::get<std::vector<double>>(several.arguments[5]).empty());

  const Node& flags = graph.nodes()[3];
  CHECK(flags.mutates == std::vector<std::uint32_t>{0});
  CHECK(flags.aliases == std::vector<Alias>{{0, 0}});
  CHECK((flags.random && flags.effectful && flags.backward && flags.autocast && !flags.grad_mode));
  CHECK(flags.provenance == Provenance{"a.b", "x.cpp:3", 5});
  CHECK(graph.nodes()[4].results.empty());
  CHECK(graph.outputs()[1] == Output{ValueId(), OutputKind::kGradient, 0});
}

TEST_CASE("what is printed reads back the same", "[ir][parse]") {
  const std::string once = print(parse(kEverything));
  CHECK(print(parse(once)) == once);
}

TEST_CASE("blanks and tabs may stand around and within an expression", "[ir][parse]") {
  const Graph graph = parse("graph g {\n  input %x: f32[ s0 +\t1, 2\t] user\n}");

  const std::vector<Expr> sizes = {Expr::symbol("s0") + 1, 2};
  CHECK(graph.tensor(graph.inputs()[0].value).sizes == sizes);
}

TEST_CASE("a mistake gives its line, its column and what was expected", "[ir][parse]") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      (void)parse(text);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "no error";
  };
  CHECK(message("grahp x {") ==
        "invalid argument: line 1, column 1: expected 'graph', found 'grahp'");
  CHECK(message("graph g {\n  input %x: f32[2 user\n}") ==
        "invalid argument: line 2, column 17: expected an integer expression (invalid argument: "
        "column 3 of \"2 user\": expected an operator or the end), found '2'");
  CHECK(message("graph g {\n  output %x user\n}") ==
        "invalid argument: line 2, column 10: expected a value that is defined above, found '%'");
  CHECK(message("graph g {\n  input %x: f32[] user\n  input %x: f32[] user\n}") ==
        "invalid argument: line 3, column 9: expected a name that is not taken (%x is), found '%'");
  CHECK_THAT(message("graph g {\n  input %x: f32[] thing\n}"),
             testing::contains("user, parameter"));
  CHECK_THAT(message("graph g {\n  %y: f32[] = a.b([1, 2.0])\n}"),
             testing::contains("a list whose"));
  CHECK_THAT(message("graph g {\n  %y: f32[] = a.b(1\n}"), testing::contains("line 2, column 20"));
  CHECK(message("graph g {\n  %y: f32[] = a.b(1, )\n}") ==
        "invalid argument: line 2, column 22: expected an argument, found ')'");
  CHECK_THAT(message("graph g {"), testing::contains("the end of the text"));
  CHECK_THAT(message("graph g {\n}\nx"), testing::contains("line 3"));
}

TEST_CASE("no damaged text is worse than an error", "[ir][parse]") {
  std::mt19937 random(11);
  const std::string good = kEverything;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (int edits = 0; edits < 3; ++edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text.erase(at, 1 + random() % 5); break;
        case 1: text[at] = good[random() % good.size()]; break;
        default: text.insert(at, good.substr(random() % good.size(), random() % 8)); break;
      }
    }
    try {
      const std::string printed = print(parse(text));
      REQUIRE(print(parse(printed)) == printed);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace kiln::ir

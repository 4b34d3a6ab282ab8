#include "kiln/ir/canonical.hpp"

#include <string>
#include <utility>

#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

std::string body(const std::string& nodes, const std::string& output) {
  return "graph g {\n  input %x: f32[4]#0 user \"x\"\n" + nodes + "  output %" + output +
         " user\n}\n";
}

const std::string kRelu = "  %a: f32[4]#1 = aten.relu.default(%x)\n";
const std::string kExp = "  %b: f32[4]#2 = aten.exp.default(%x)\n";
const std::string kMul = "  %c: f32[4]#3 = aten.mul.Tensor(%a, %b)\n";

TEST_CASE("names, provenance, storage numbers and free order do not count", "[ir][canonical]") {
  const std::string base = canonical_bytes(parse(body(kRelu + kExp + kMul, "c")));
  CHECK(base == canonical_bytes(parse(body(kExp + kRelu + kMul, "c"))));
  CHECK(base == canonical_bytes(parse(
                    "graph other {\n  input %in: f32[4]#7 user \"x\"\n"
                    "  %p: f32[4] = aten.relu.default(%in) module \"m\" source \"s\" sequence 3\n"
                    "  %dead: f32[4]#7 = aten.alias.default(%in) view(0:0)\n"
                    "  %q: f32[4]#9 = aten.exp.default(%in)\n"
                    "  %r: f32[4]#1 = aten.mul.Tensor(%p, %q)\n"
                    "  output %r user\n}\n")));
}

TEST_CASE("where memory is written the order of operators counts", "[ir][canonical]") {
  const std::string read = "  %a: f32[4]#1 = aten.relu.default(%x)\n";
  const std::string write = "  %b: f32[4]#0 = aten.exp_.default(%x) mutates(0) view(0:0)\n";

  CHECK(canonical_bytes(parse(body(read + write, "a"))) !=
        canonical_bytes(parse(body(write + read, "a"))));
}

TEST_CASE("what a size was in the example counts, unless it is to be left out", "[ir][canonical]") {
  const auto bytes = [](const std::string& hint, bool hints) {
    return canonical_bytes(parse("graph g {\n  symbol %n in [1, 64]" + hint +
                                 "\n  input %x: f32[n] user\n  output %x user\n}\n"),
                           {.hints = hints});
  };

  CHECK(bytes(" hint 2", true) != bytes(" hint 3", true));
  CHECK(bytes(" hint 2", true) != bytes("", true));
  CHECK(bytes(" hint 2", false) == bytes(" hint 3", false));
  CHECK(bytes(" hint 2", false) == bytes("", false));
}

// A graph of sizes `a` and `b`, in which whatever may mention them does.
std::string of_two_sizes(const std::string& a, const std::string& b) {
  const auto replaced = [&](std::string text) {
    for (const auto& [from, to] : {std::pair("A", a), std::pair("B", b)}) {
      for (std::size_t at = text.find(from); at != std::string::npos;
           at = text.find(from, at + to.size())) {
        text.replace(at, 1, to);
      }
    }
    return text;
  };
  // Symbols are in the order of their names.
  const std::string first = replaced("  symbol %A in [2, 64] hint 8\n");
  const std::string second = replaced("  symbol %B in [2, 64] hint 8\n");
  return "graph g {\n" + (a < b ? first + second : second + first) + replaced(R"(  guard "A < 2*B"
  guard "Mod(A + B, 2) == 0"
  input %x: f32[A] user
  input %y: f32[B] user
  %c: f32[A + B] = aten.cat.default([%x, %y], 0)
  %d: f32[A + B] = aten.mul.Scalar(%c, divide(1.0, float(A + 3*B)))
  %e: f32[A*B//2] = aten.slice.Tensor(%d, 0, 0, A*B//2, 1)
  %f: f32[Min(A, B)] = aten.slice.Tensor(%e, 0, 0, Min(A, B), 1)
  output %f user
}
)");
}

TEST_CASE("what symbols are called does not count, unless it is asked for", "[ir][canonical]") {
  const Graph base = parse(of_two_sizes("m", "n"));

  // The third has the names in another order, and with it the terms of every sum.
  for (const auto& [a, b] : {std::pair("rows", "width"),
                             std::pair("s0", "s77"),
                             std::pair("z", "k"),
                             std::pair("n", "m")}) {
    const Graph renamed = parse(of_two_sizes(a, b));
    CAPTURE(a, b);
    CHECK(canonical_bytes(renamed) == canonical_bytes(base));
    CHECK(canonical_bytes(renamed, {.symbol_names = true}) !=
          canonical_bytes(base, {.symbol_names = true}));
  }
}

TEST_CASE("which size is which counts, whatever they are called", "[ir][canonical]") {
  const std::string good = of_two_sizes("m", "n");
  const std::string base = canonical_bytes(parse(good));
  const auto differs = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    INFO(text);
    CHECK(canonical_bytes(parse(text)) != base);
  };

  differs("\"m < 2*n\"", "\"n < 2*m\"");
  differs("\"m < 2*n\"", "\"m <= 2*n\"");
  differs("Mod(m + n, 2)", "Mod(m + n, 3)");
  differs("float(m + 3*n)", "float(3*m + n)");
  differs("symbol %m in [2, 64]", "symbol %m in [2, 65]");
  differs("symbol %n in [2, 64] hint 8", "symbol %n in [2, 64] hint 9");
  differs("%y: f32[n]", "%y: f32[m]");
}

TEST_CASE("whatever changes the program changes the bytes", "[ir][canonical]") {
  const std::string good = body(kRelu + kExp + kMul, "c");
  const std::string base = canonical_bytes(parse(good));
  const auto differs = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    INFO(text);
    CHECK(canonical_bytes(parse(text)) != base);
  };
  differs("aten.exp", "aten.log");
  differs("(%a, %b)", "(%b, %a)");
  differs("(%a, %b)", "(%a, %b, 1)");
  differs("output %c", "output %b");
  differs("%x: f32[4]", "%x: f64[4]");
  differs("%x: f32[4]", "%x: f32[4]{2}");
  differs("#0 user", "#0 parameter");
  differs("user \"x\"", "user \"y\"");
  differs("#0 user \"x\"", "#0 user \"x\" grad");
  differs("default(%x)\n", "default(%x) backward\n");
  differs("b: f32[4]#2", "b: f32[4]#1");
  differs("output %c user", "output %c gradient 0");
}

TEST_CASE("zeros of different sign, and an integer and a float, are different", "[ir][canonical]") {
  const auto with = [](const std::string& literal) {
    return digest_of(parse(body("  %a: f32[4] = aten.mul.Scalar(%x, " + literal + ")\n", "a")));
  };
  CHECK(with("0.0") != with("-0.0"));
  CHECK(with("1") != with("1.0"));
  CHECK(with("1") != with("true"));
  CHECK(with("nan") == with("nan"));
}

TEST_CASE("draws keep their order", "[ir][canonical]") {
  const std::string first = "  %a: f32[4] = aten.rand_like.default(%x) random\n";
  const std::string second = "  %b: f32[4] = aten.randn_like.default(%x) random\n";
  const std::string sum = "  %c: f32[4] = aten.add.Tensor(%a, %b)\n";
  CHECK(canonical_bytes(parse(body(first + second + sum, "c"))) !=
        canonical_bytes(parse(body(second + first + sum, "c"))));
}

TEST_CASE("a draw that nothing uses counts, wherever it stands", "[ir][canonical]") {
  const std::string draw = "  %b: f32[4] = aten.rand_like.default(%x) random\n";
  const std::string without = canonical_bytes(parse(body(kRelu, "a")));

  CHECK(canonical_bytes(parse(body(draw + kRelu, "a"))) != without);
  CHECK(canonical_bytes(parse(body(kRelu + draw, "a"))) != without);
}

TEST_CASE("the user's names can be left out", "[ir][canonical]") {
  const Graph named = parse(body(kRelu, "a"));
  Graph other = named;
  other.inputs()[0].name = "layer2.x";
  CHECK(digest_of(named) != digest_of(other));
  CHECK(digest_of(named, {.user_names = false}) == digest_of(other, {.user_names = false}));
}

}  // namespace
}  // namespace kiln::ir

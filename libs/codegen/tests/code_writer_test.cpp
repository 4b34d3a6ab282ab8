#include "text/code_writer.hpp"

#include <string>
#include <string_view>

#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

TEST_CASE("a template takes texts and numbers in the order of its places", "[codegen][text]") {
  const std::string name = "x";
  CHECK(code("$[$] = $;", name, 3, std::string_view("y")) == "x[3] = y;");
  CHECK(code("$", std::int64_t{-5}) == "-5");
  CHECK(code("$$", "a", "b") == "ab");
}

TEST_CASE("a sign in an argument is no place", "[codegen][text]") {
  CHECK(code("$ + $", "$", "b") == "$ + b");

  CodeWriter writer;
  writer.line("price in $");
  CHECK(writer.text() == "price in $\n");
}

TEST_CASE("blocks close where their scope ends, innermost first", "[codegen][text]") {
  CodeWriter writer;
  {
    const CodeWriter::Scope function = writer.scope("void f(int $)", "n");
    {
      const CodeWriter::Scope table = writer.declaration("static const int t[$] =", 2);
      writer.line("$, $,", 1, 2);
    }
    writer.directive("#pragma unroll");
    const CodeWriter::Scope loop = writer.scope("for (int i = 0; i < $; ++i)", "n");
    writer.line();
    const CodeWriter::Scope block = writer.scope();
    writer.line("g(i);");
  }
  CHECK(writer.text() == R"(void f(int n) {
  static const int t[2] = {
    1, 2,
  };
#pragma unroll
  for (int i = 0; i < n; ++i) {

    {
      g(i);
    }
  }
}
)");
}

TEST_CASE("a block that another function closes ends as it says", "[codegen][text]") {
  CodeWriter writer;
  writer.open("parallel_for($, [&]", 8);
  writer.line("work();");
  writer.close("});");
  writer.verbatim("// as it is\n");
  CHECK(writer.text() == "parallel_for(8, [&] {\n  work();\n});\n// as it is\n");
}

}  // namespace
}  // namespace kiln::codegen

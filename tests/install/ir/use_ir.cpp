// Reads a graph and writes it again: what it prints must be what it read.

#include <cstdio>
#include <string>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"

int main() {
  const kiln::ir::Graph graph = kiln::ir::parse(R"(graph g {
  input %x: f32[8] user
  %y: f32[8] = aten.relu.default(%x)
  output %y user
})");
  kiln::ir::verify(graph);
  const std::string text = kiln::ir::print(graph);
  std::fputs(text.c_str(), stdout);
  return kiln::ir::print(kiln::ir::parse(text)) == text ? 0 : 1;
}

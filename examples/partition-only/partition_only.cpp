// Only the partitioner: somebody else's compiler has a joint graph of forward and backward, and
// asks what to save between the two. No libtorch is needed.
//
// The graph is text here; a compiler would build an ir::Graph node by node.

#include <iostream>

#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/partitioner/explain.hpp"
#include "kiln/partitioner/min_cut.hpp"

// y = cos(cos(cos(x))) and its gradient, as a differentiation would write it.
constexpr const char* kJoint = R"(graph joint {
  input %x: f32[1024, 1024] user grad
  input %dy: f32[1024, 1024] tangent
  %a: f32[1024, 1024] = aten.cos.default(%x)
  %b: f32[1024, 1024] = aten.cos.default(%a)
  %y: f32[1024, 1024] = aten.cos.default(%b)
  %sb: f32[1024, 1024] = aten.sin.default(%b) backward
  %nb: f32[1024, 1024] = aten.neg.default(%sb) backward
  %db: f32[1024, 1024] = aten.mul.Tensor(%dy, %nb) backward
  %sa: f32[1024, 1024] = aten.sin.default(%a) backward
  %na: f32[1024, 1024] = aten.neg.default(%sa) backward
  %da: f32[1024, 1024] = aten.mul.Tensor(%db, %na) backward
  %sx: f32[1024, 1024] = aten.sin.default(%x) backward
  %nx: f32[1024, 1024] = aten.neg.default(%sx) backward
  %dx: f32[1024, 1024] = aten.mul.Tensor(%da, %nx) backward
  output %y user
  output %dx gradient 0
})";

int main() {
  const kiln::ir::Graph joint = kiln::ir::parse(kJoint);
  const kiln::partitioner::Partition partition = kiln::partitioner::min_cut_partition(joint);
  std::cout << kiln::partitioner::explain(partition) << "\n"
            << kiln::ir::print(partition.forward) << "\n"
            << kiln::ir::print(partition.backward);

  // The input is kept anyway; the cosines in between are cheaper to compute again than to keep.
  const auto saved = kiln::partitioner::saved_values(partition);
  return saved.size() == 1 && saved.front().name == "x" ? 0 : 1;
}

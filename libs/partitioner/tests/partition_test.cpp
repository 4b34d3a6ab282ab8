#include "kiln/partitioner/partition.hpp"

#include <string>
#include <utility>
#include <vector>

#include "joint_graphs.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

using Names = std::vector<std::string>;
using Arity = std::pair<std::size_t, std::size_t>;

std::string error_of(const std::string& joint) {
  try {
    static_cast<void>(default_partition(ir::parse(joint)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("PT-01 saved values link the forward's outputs to the backward's inputs",
          "[partitioner][partition]") {
  const ir::Graph joint = joint_graph("linear_relu");

  const Partition partition = default_partition(joint);

  CHECK(input_names(partition.forward) == Names{"x", "weight", "bias"});
  CHECK(output_names(partition.forward) == Names{"relu", "x", "relu"});
  CHECK(input_names(partition.backward) == Names{"x", "relu", "tangent"});
  CHECK(output_names(partition.backward) == Names{"none", "mm", "view"});
  CHECK(partition.backward.inputs()[0].kind == ir::InputKind::kSaved);
  CHECK(partition.backward.inputs()[2].kind == ir::InputKind::kTangent);
  CHECK(partition.backward.outputs()[2].kind == ir::OutputKind::kGradient);
  CHECK(partition.backward.outputs()[2].input == 2);
  CHECK(partition.forward.inputs()[1].kind == ir::InputKind::kParameter);
  CHECK(partition.forward.inputs()[1].name == "fc.weight");
}

TEST_CASE("PT-02 a gradient that needs no tangent is saved, not computed again",
          "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[2] user grad
  input %tangent: f32[2] tangent
  %exp: f32[2] = aten.exp.default(%x)
  output %exp user
  output %exp gradient 0
})"));

  CHECK(output_names(partition.forward) == Names{"exp", "exp"});
  CHECK(input_names(partition.backward) == Names{"exp", "tangent"});
  CHECK(partition.backward.nodes().empty());
}

TEST_CASE("PT-03 the split follows the program order and drops what the backward does not use",
          "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[2] user grad
  input %unused: f32[2] user
  input %tangent: f32[2] tangent
  %exp: f32[2] = aten.exp.default(%x)
  %inner: f32[2] = aten.neg.default(%exp) backward
  %dead: f32[2] = aten.neg.default(%inner)
  %sin: f32[2] = aten.sin.default(%inner)
  %cos: f32[2] = aten.cos.default(%inner) backward
  %grad: f32[2] = aten.mul.Tensor(%tangent, %cos) backward
  output %sin user
  output %grad gradient 0
  output none gradient 1
})"));

  // The node between two of the forward is the forward's, whoever recorded it.
  CHECK(targets(partition.forward) ==
        Names{"aten.exp.default", "aten.neg.default", "aten.sin.default"});
  CHECK(output_names(partition.forward) == Names{"sin", "inner"});
  CHECK(targets(partition.backward) == Names{"aten.cos.default", "aten.mul.Tensor"});
}

TEST_CASE(
    "PT-03 what lies between two nodes of the forward is the forward's, also if only the backward "
    "needs it",
    "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[2] user grad
  input %tangent: f32[2] tangent
  %exp: f32[2] = aten.exp.default(%x)
  %inner: f32[2] = aten.neg.default(%exp) backward
  %sin: f32[2] = aten.sin.default(%exp)
  %mul: f32[2] = aten.mul.Tensor(%tangent, %inner) backward
  %grad: f32[2] = aten.neg.default(%mul) backward
  output %sin user
  output %grad gradient 0
})"));

  CHECK(saved_names(partition) == Names{"inner"});
}

TEST_CASE("PT-04 layer norm: six forward outputs, six backward inputs",
          "[partitioner][partition]") {
  const Partition partition = default_partition(joint_graph("layer_norm"));

  CHECK(arity(partition.forward) == Arity{3, 6});
  CHECK(arity(partition.backward) == Arity{6, 3});
  CHECK(output_names(partition.forward) == Names{"y", "x", "weight", "bias", "mean", "rstd"});
}

TEST_CASE("PT-05 sizes are saved instead of the tensor they are asked of",
          "[partitioner][partition]") {
  const Partition partition = default_partition(joint_graph("sum_rows"));

  CHECK(output_names(partition.forward) == Names{"sum", "rows", "columns"});
  CHECK(input_names(partition.backward) == Names{"rows", "columns", "tangent"});
}

TEST_CASE("PT-06 every symbol that the backward mentions is bound, bare ones first",
          "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  symbol %s0 in [2, 64]
  symbol %s1 in [2, 64]
  symbol %s2 in [2, 64]
  input %x: f32[s0, s1] user grad
  input %n: int(s2) user
  input %tangent: f32[s0 + 1] tangent
  %double: int(2*s2) = _operator.mul(%n, 2)
  %mean: f32[s0 + 1] = test.forward.default(%x, %double)
  %grad: f32[s0, s1] = test.backward.default(%tangent, %double) backward
  output %mean user
  output %grad gradient 0
  output none gradient 1
})"));

  // s2 is bound by an input, s0 and s1 are read off a tensor; the derived integer comes last.
  CHECK(output_pattern(partition.forward) == "TSSSS");
  const auto inputs = partition.backward.inputs();
  REQUIRE(inputs.size() == 5);
  std::vector<std::string> integers;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& meta = partition.backward.value(inputs[i].value).meta;
    integers.push_back(std::get<ir::SymIntMeta>(meta).expr.to_string());
  }
  CHECK(integers == Names{"s0", "s1", "s2", "2*s2"});
  CHECK(partition.backward.value(inputs[4].value).name == "tangent");
}

TEST_CASE("PT-06 a symbol is read off whichever input has it as a size",
          "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  symbol %s0 in [2, 64]
  input %x: f32[4] user grad
  input %other: f32[4, s0] user
  input %tangent: f32[4] tangent
  %y: f32[4] = test.forward.default(%x, %other)
  %g: f32[4] = test.backward.default(%tangent, [s0]) backward
  output %y user
  output %g gradient 0
  output none gradient 1
})"));

  CHECK(output_pattern(partition.forward) == "TS");
  const ir::Node& size = partition.forward.nodes().back();
  CHECK(size.target == "aten.sym_size.int");
  CHECK(std::get<ir::ValueId>(size.arguments[0]) == partition.forward.inputs()[1].value);
  CHECK(std::get<ir::Expr>(size.arguments[1]) == ir::Expr(1));
}

TEST_CASE("PT-06 a size of a tangent need not be handed over", "[partitioner][partition]") {
  const Partition partition = default_partition(ir::parse(R"(graph g {
  symbol %s0 in [2, 64]
  input %x: f32[4] user grad
  input %tangent: f32[s0] tangent
  %y: f32[s0] = test.forward.default(%x)
  %g: f32[4] = test.backward.default(%tangent, [s0]) backward
  output %y user
  output %g gradient 0
})"));

  CHECK(saved_names(partition).empty());
  CHECK(input_names(partition.backward) == Names{"tangent"});
}

TEST_CASE("PT-06 a symbol that nothing binds is an error that names it",
          "[partitioner][partition]") {
  CHECK_THAT(error_of(R"(graph g {
  symbol %s0 in [2, 64]
  input %x: f32[4] user grad
  input %tangent: f32[4] tangent
  %y: f32[4] = aten.exp.default(%x)
  %g: f32[4] = test.backward.default(%tangent, [s0]) backward
  output %y user
  output %g gradient 0
})"),
             testing::contains("s0"));
}

TEST_CASE("PT-07 sizes among the outputs: 4 in, 13 out; 10 in, 4 out", "[partitioner][partition]") {
  const Partition partition = default_partition(joint_graph("shapes_default"));

  CHECK(arity(partition.forward) == Arity{4, 13});
  CHECK(arity(partition.backward) == Arity{10, 4});
  CHECK(output_pattern(partition.forward) == "TSSTTTTTTSSSS");
}

TEST_CASE("PT-22 writes stay on their side, and the backward reads what was before them",
          "[partitioner][partition]") {
  SECTION("a write-back of the forward") {
    const Partition partition = default_partition(joint_graph("write_back"));

    CHECK(targets(partition.forward) ==
          Names{"aten.mul.Tensor", "aten.add.Tensor", "aten.clone.default", "aten.copy_.default"});
    CHECK(output_names(partition.forward) == Names{"mul", "x_saved"});
    CHECK(targets(partition.backward) == Names{"aten.mul.Tensor"});
  }

  SECTION("an input that is written after the forward has returned") {
    const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[4] buffer
  input %w: f32[4] parameter "w" grad
  input %tangent: f32[4] tangent
  %view: f32[2, 2] = aten.view.default(%x, [2, 2]) view(0:0)
  %mul: f32[4] = aten.mul.Tensor(%x, %w)
  %add: f32[4] = aten.add.Tensor(%x, 1, 1)
  %grad: f32[4] = test.backward.default(%tangent, %view) backward
  output %add mutation 0
  output %mul user
  output none gradient 0
  output %grad gradient 1
})"));
    CHECK(output_names(partition.forward) == Names{"add", "mul", "view_saved"});
    CHECK(partition.forward.outputs()[0].kind == ir::OutputKind::kMutation);
  }

  SECTION("an input that the first node writes and that is a gradient itself") {
    const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[4] user
  input %y: f32[4] user grad
  input %tangent: f32[4] tangent
  %copy: f32[4] = aten.copy_.default(%x, %y, false) mutates(0) view(0:0)
  output %copy user
  output none gradient 0
  output %x gradient 1
})"));
    CHECK(targets(partition.forward) == Names{"aten.clone.default", "aten.copy_.default"});
    CHECK(saved_names(partition) == Names{"x_saved"});
  }

  SECTION("new contents that come after the gradients are the backward's to compute") {
    const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[4] user
  input %tangent: f32[4] tangent
  %exp: f32[4] = aten.exp.default(%x)
  %grad: f32[4] = aten.mul.Tensor(%tangent, %exp) backward
  %new: f32[4] = aten.mul.Tensor(%x, %exp) backward
  output %exp user
  output %grad gradient 0
  output %new mutation 0
})"));
    CHECK(output_names(partition.backward) == Names{"grad", "new"});
    CHECK(partition.backward.outputs()[1].kind == ir::OutputKind::kGradient);
  }

  SECTION("a view is read when its users run, not when it is made") {
    const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[4] user
  input %tangent: f32[4] tangent
  %y: f32[4] = aten.exp.default(%x)
  %view: f32[2, 2] = aten.view.default(%x, [2, 2]) view(0:0) backward
  %copy: f32[4] = aten.copy_.default(%x, %y, false) mutates(0) view(0:0)
  %grad: f32[4] = test.backward.default(%tangent, %view) backward
  output %y user
  output %grad gradient 0
})"));
    CHECK(saved_names(partition) == Names{"view"});
  }

  SECTION("a write-back of the backward") {
    const Partition partition = default_partition(ir::parse(R"(graph g {
  input %x: f32[4] user grad
  input %counter: f32[4] buffer
  input %tangent: f32[4] tangent
  %exp: f32[4] = aten.exp.default(%x)
  %grad: f32[4] = aten.mul.Tensor(%tangent, %exp) backward
  %more: f32[4] = aten.add.Tensor(%counter, 1, 1) backward
  %copy: f32[4] = aten.copy_.default(%counter, %more, false) mutates(0) view(0:0) backward
  output %exp user
  output %grad gradient 0
  output none gradient 1
})"));
    CHECK(targets(partition.forward) == Names{"aten.exp.default"});
    CHECK(saved_names(partition) == Names{"counter", "exp"});
    CHECK(targets(partition.backward) ==
          Names{"aten.mul.Tensor", "aten.add.Tensor", "aten.copy_.default"});
  }

  SECTION("a value that is wanted before and after a write is refused") {
    CHECK_THAT(error_of(R"(graph g {
  input %x: f32[4] user grad
  input %tangent: f32[4] tangent
  %y: f32[4] = aten.exp.default(%x)
  %a: f32[4] = aten.mul.Tensor(%tangent, %x) backward
  %copy: f32[4] = aten.copy_.default(%x, %y, false) mutates(0) view(0:0)
  %b: f32[4] = aten.mul.Tensor(%a, %x) backward
  output %y user
  output %b gradient 0
})"),
               testing::contains("%x both before and after"));
  }
}

TEST_CASE("PT-22 a copy before a write keeps the order of dimensions, and no gaps",
          "[partitioner][partition]") {
  const auto strides_of_copy = [](const std::string& type) {
    const Partition partition =
        default_partition(ir::parse("graph g {\n  input %x: " + type + R"( user grad
  input %tangent: f32[2, 3] tangent
  %y: f32[2, 3] = aten.exp.default(%x)
  %grad: f32[2, 3] = aten.mul.Tensor(%tangent, %x) backward
  %copy: )" + type + R"( = aten.copy_.default(%x, %y, false) mutates(0) view(0:0)
  output %y user
  output %grad gradient 0
})"));
    REQUIRE(saved_names(partition) == Names{"x_saved"});
    return partition.backward.tensor(partition.backward.inputs()[0].value).strides;
  };

  CHECK(strides_of_copy("f32[2, 3]") == std::vector<ir::Expr>{3, 1});
  CHECK(strides_of_copy("f32[2, 3]{1, 2}") == std::vector<ir::Expr>{1, 2});
  CHECK(strides_of_copy("f32[2, 3]{6, 1}") == std::vector<ir::Expr>{3, 1});
}

TEST_CASE("unused tangents, outputs that are inputs and graphs without backward are handled",
          "[partitioner][partition]") {
  using Split = Partition (*)(const ir::Graph&);
  const Split split = GENERATE(Split(default_partition),
                               Split([](const ir::Graph& g) { return min_cut_partition(g); }));

  SECTION("unused tangents keep their places") {
    const Partition partition = split(ir::parse(R"(graph g {
  input %x: f32[4] user grad
  input %first: f32[4] tangent
  input %second: f32[4] tangent
  %y: f32[4] = aten.neg.default(%x)
  %z: f32[4] = aten.detach.default(%x)
  %g: f32[4] = aten.neg.default(%second) backward
  output %z user
  output %y user
  output %g gradient 0
})"));
    CHECK(input_names(partition.backward) == Names{"first", "second"});
    CHECK(saved_names(partition).empty());
  }

  SECTION("an output that is an input") {
    const Partition partition = split(ir::parse(R"(graph g {
  input %x: f32[4] user grad
  input %tangent: f32[4] tangent
  output %x user
  output %tangent gradient 0
})"));
    CHECK(output_names(partition.forward) == Names{"x"});
    CHECK(output_names(partition.backward) == Names{"tangent"});
  }

  SECTION("no backward at all") {
    const Partition partition = split(ir::parse(R"(graph g {
  input %x: f32[4] user
  %y: f32[4] = aten.neg.default(%x)
  output %y user
  output none gradient 0
})"));
    CHECK(arity(partition.forward) == Arity{1, 1});
    CHECK(arity(partition.backward) == Arity{0, 1});
  }

  SECTION("an undefined result of a node that has several") {
    const Partition partition = split(ir::parse(R"(graph g {
  input %x: f32[4] user grad
  input %tangent: f32[4] tangent
  %y: f32[4], none, %mask: bool[4] = test.three.default(%x)
  none, %g: f32[4] = test.two.default(%tangent, [%mask, none]) backward
  output %y user
  output %g gradient 0
})"));
    CHECK(saved_names(partition) == Names{"mask"});
  }
}

TEST_CASE("a joint graph that breaks the rules is refused with the value's name",
          "[partitioner][partition]") {
  const std::string tail = "  output %y user\n  output none gradient 0\n}";
  CHECK_THAT(error_of("graph g {\n  input %t: f32[4] tangent\n  input %x: f32[4] user\n"
                      "  %y: f32[4] = aten.neg.default(%x)\n" +
                      tail),
             testing::contains("%x comes after the tangents"));
  CHECK_THAT(error_of("graph g {\n  input %x: f32[4] user\n  input %t: f32[4] tangent\n"
                      "  %y: f32[4] = aten.neg.default(%t)\n" +
                      tail),
             testing::contains("%y (aten.neg.default), belongs to the forward"));
  CHECK_THAT(error_of("graph g {\n  input %x: f32[4] saved\n"
                      "  %y: f32[4] = aten.neg.default(%x)\n" +
                      tail),
             testing::contains("%x is a saved value"));
  CHECK_THAT(error_of("graph g {\n  input %x: f32[4] user\n  input %t: f32[4] tangent\n"
                      "  %y: f32[4] = aten.neg.default(%x)\n"
                      "  output %y user\n  output %t gradient 1\n}"),
             testing::contains("input 1, which is not one of the 1 primals"));
  CHECK_THAT(error_of("graph g {\n  input %x: f32[4] user\n  input %t: f32[4] tangent\n"
                      "  output %t gradient 0\n  output %x user\n}"),
             testing::contains("after the gradients"));
  CHECK_THAT(error_of("graph g {\n  input %n: int(s0) user\n  input %x: f32[4] user\n"
                      "  input %t: f32[4] tangent\n  output %x user\n  output %n gradient 0\n}"),
             testing::contains("%n, is a gradient and not a tensor"));
}

}  // namespace
}  // namespace kiln::partitioner

#include <string>
#include <tuple>
#include <utility>

#include "backend/cpu/passes/prepare_gemms.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "passes/split_constants.hpp"
#include "passes/unroll_lstm.hpp"
#include "support/count_nodes.hpp"

namespace kiln::codegen {
namespace {

// Where libtorch multiplies by way of OpenBLAS.
const Target kOpenBlas = {.panel_width = 8, .blas_packs_slowly = true};

using kiln::testing::contains;
using testing::count_nodes;

TEST_CASE("what depends on constants alone is split off", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[8, 64] user
    input %w: f32[32, 64] parameter "w"
    input %s: f32[32, 1] parameter "s"
    %v: f32[32, 64] = aten.mul.Tensor(%w, %s)
    %t: f32[64, 32]{1, 64} = aten.t.default(%v) view(0:0)
    %y: f32[8, 32] = aten.mm.default(%x, %t)
    %n: f32[32, 1] = aten.neg.default(%s)
    output %y user
    output %n user
  })");

  const SplitProgram split = split_constants(graph);

  ir::verify(split.run);
  ir::verify(split.fold);
  CHECK(split.folded() == 2);
  CHECK(split.run.inputs().size() == graph.inputs().size() + 2);
  CHECK(count_nodes(split.run, "aten.mul.Tensor") == 0);
  CHECK(count_nodes(split.fold, "aten.mul.Tensor") == 1);
  // A view costs nothing, and its base is what is folded.
  CHECK(count_nodes(split.run, "aten.t.default") == 1);
  CHECK(count_nodes(split.fold, "aten.t.default") == 0);
  CHECK_THAT(ir::print(split.run), contains("aten.t.default(%folded_v)"));
}

TEST_CASE("an assertion stays where its condition is computed", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[8] user
    input %w: f32[8] parameter "w"
    %positive: bool[8] = aten.gt.Scalar(%x, 0)
    %all: bool[] = aten.all.default(%positive)
    aten._assert_async.msg(%all, "negative") effectful
    %e: f32[8] = aten.exp.default(%w)
    %y: f32[8] = aten.mul.Tensor(%x, %e)
    output %y user
  })");

  const SplitProgram split = split_constants(graph);

  ir::verify(split.run);
  ir::verify(split.fold);
  CHECK(split.folded() == 1);
  CHECK(count_nodes(split.run, "aten._assert_async.msg") == 1);
  CHECK(count_nodes(split.fold, "aten._assert_async.msg") == 0);
}

TEST_CASE("weights of small products are transposed once", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[64, 510] user
    input %w: f32[510, 510] parameter "w"
    input %b: f32[510] parameter "b"
    input %wide: f32[4100, 510] parameter "wide"
    input %u: f32[510, 510] user
    %t: f32[510, 510]{1, 510} = aten.t.default(%w) view(0:0)
    %y: f32[64, 510] = aten.addmm.default(%b, %x, %t, 1, 1)
    %z: f32[64, 510] = aten.mm.default(%y, %t)
    %wt: f32[510, 4100]{1, 510} = aten.t.default(%wide) view(0:0)
    %v: f32[64, 4100] = aten.mm.default(%z, %wt)
    %ut: f32[510, 510]{1, 510} = aten.t.default(%u) view(0:0)
    %n: f32[64, 510] = aten.mm.default(%z, %ut)
    output %v user
    output %n user
  })");

  const ir::Graph transposed = prepare_gemms(graph, kOpenBlas, true);
  ir::verify(transposed);
  CHECK(count_nodes(prepare_gemms(graph, kOpenBlas, false), "aten.clone.default") == 0);
  // Two products share one; the third weight is too large, the fourth is not a constant.
  CHECK(count_nodes(transposed, "aten.clone.default") == 1);
  CHECK_THAT(ir::print(transposed), contains("aten.mm.default(%z, %wt)"));
  CHECK_THAT(ir::print(transposed), contains("aten.mm.default(%z, %ut)"));

  const SplitProgram split = split_constants(transposed);
  CHECK(split.folded() == 1);
  CHECK(count_nodes(split.fold, "aten.clone.default") == 1);
  CHECK(count_nodes(split.run, "aten.clone.default") == 0);
}

TEST_CASE("weights with whole panels of columns are packed once", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[64, 512] user
    input %w: f32[512, 512] parameter "w"
    input %b: f32[512] parameter "b"
    %t: f32[512, 512]{1, 512} = aten.t.default(%w) view(0:0)
    %y: f32[64, 512] = aten.addmm.default(%b, %x, %t, 1, 1)
    %z: f32[64, 512] = aten.mm.default(%y, %t)
    %n: f32[64, 512] = aten.addmm.default(%b, %z, %t, 0.5, 1)
    output %n user
  })");

  const ir::Graph packed = prepare_gemms(graph, kOpenBlas, true);
  ir::verify(packed);
  CHECK_THAT(ir::print(packed), contains("kiln.packed_mm.default(%x, %clone, %b)"));
  CHECK_THAT(ir::print(packed), contains("kiln.packed_mm.default(%y, %clone, none)"));
  // A scaled bias is libtorch's, with the weight transposed.
  CHECK(count_nodes(packed, "aten.addmm.default") == 1);

  const SplitProgram split = split_constants(packed);
  CHECK(split.folded() == 2);
  CHECK(count_nodes(split.run, "aten.clone.default") == 0);
}

TEST_CASE("a product of constants alone is left as it is", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[8, 512] user
    input %p: f32[8, 512] parameter "p"
    input %w: f32[512, 512] parameter "w"
    %e: f32[8, 512] = aten.exp.default(%p)
    %t: f32[512, 512]{1, 512} = aten.t.default(%w) view(0:0)
    %y: f32[8, 512] = aten.mm.default(%e, %t)
    %z: f32[8, 512] = aten.mul.Tensor(%x, %y)
    output %z user
  })");

  CHECK(ir::print(prepare_gemms(graph, kOpenBlas, true)) == ir::print(graph));
}

TEST_CASE("a single row, many rows and a small weight leave it as it is", "[codegen][prepare]") {
  const auto copies = [](const std::string& rows, const std::string& columns) {
    return count_nodes(
        prepare_gemms(
            ir::parse("graph g {\n  input %x: f32[" + rows + ", 64] user\n  input %w: f32[" +
                      columns + ", 64] parameter \"w\"\n  %t: f32[64, " + columns +
                      "]{1, 64} = aten.t.default(%w) view(0:0)\n  %y: f32[" + rows + ", " +
                      columns + "] = aten.mm.default(%x, %t)\n  output %y user\n}"),
            kOpenBlas,
            true),
        "aten.clone.default");
  };
  CHECK(copies("128", "510") == 1);
  CHECK(copies("1", "510") == 0);
  CHECK(copies("129", "510") == 0);
  CHECK(copies("128", "30") == 0);
  CHECK(copies("128", "512") == 1);
  CHECK(copies("1", "512") == 0);
  CHECK(copies("256", "512") == 1);
  CHECK(copies("257", "512") == 0);
  CHECK(copies("129", "8192") == 0);
  CHECK(copies("128", "8") == 0);
}

constexpr const char* kLayer = R"(graph g {
    input %x: f32[5, 3, 8] user
    input %wi: f32[24, 8] parameter "wi"
    input %wh: f32[24, 6] KIND "wh"
    input %bi: f32[24] parameter "bi"
    input %bh: f32[24] parameter "bh"
    input %h: f32[3, 6] user
    input %c: f32[3, 6] user
    %y: f32[5, 3, 6], %hy: f32[3, 6], %cy: f32[3, 6], none = aten.mkldnn_rnn_layer.default(%x, %wi, %wh, %bi, %bh, %h, %c, false, [], MODE, 6, 1, true, false, false, TRAIN)
    output %y user
    output %hy user
    output %cy user
  })";

TEST_CASE("layers of an LSTM are written out where they infer with fixed weights",
          "[codegen][prepare]") {
  const auto expanded =
      [](const std::string& kind, const std::string& mode, const std::string& train) {
        std::string text = kLayer;
        for (const auto& [what, by] :
             {std::pair("KIND", kind), std::pair("MODE", mode), std::pair("TRAIN", train)}) {
          text.replace(text.find(what), std::string(what).size(), by);
        }
        const ir::Graph graph = unroll_lstm(ir::parse(text));
        ir::verify(graph);
        return graph;
      };
  const ir::Graph graph = expanded("parameter", "2", "false");
  CHECK(count_nodes(graph, "aten.mkldnn_rnn_layer.default") == 0);
  CHECK(count_nodes(graph, "aten.addmm.default") == 6);
  for (const auto& [kind, mode, train] : {std::tuple("user", "2", "false"),
                                          std::tuple("parameter", "3", "false"),
                                          std::tuple("parameter", "2", "true")}) {
    CHECK(count_nodes(expanded(kind, mode, train), "aten.mkldnn_rnn_layer.default") == 1);
  }
}

TEST_CASE("the bias of a large product is added by the kernel that reads it",
          "[codegen][prepare]") {
  const auto products =
      [](const std::string& rows, const std::string& rest, const std::string& symbols = "") {
        const ir::Graph graph =
            ir::parse("graph g {\n" + symbols + "  input %x: f32[" + rows +
                      ", 64] user\n  input %w: f32[64, 1024] user\n  input %b: "
                      "f32[1024] user\n  %p: f32[" +
                      rows + ", 1024] = aten.addmm.default(%b, %x, %w, 1, 1)\n" + rest + "\n}");
        const ir::Graph split = prepare_gemms(graph, {}, false);
        ir::verify(split);
        return count_nodes(split, "aten.mm.default");
      };
  const std::string view =
      "  %v: f32[2, 256, 1024] = aten.view.default(%p, [2, 256, 1024]) view(0:0)\n";
  const std::string relu = "  %y: f32[2, 256, 1024] = aten.relu.default(%v)\n  output %y user";

  CHECK(products("512", view + relu) == 1);
  // Rows that vary, and are never few; and those that may be.
  const std::string varying = "  %y: f32[s0, 1024] = aten.relu.default(%p)\n  output %y user";
  CHECK(products("s0", varying, "  symbol %s0 in [256, 4096]\n") == 1);
  CHECK(products("s0", varying, "  symbol %s0 in [1, 4096]\n") == 0);
  // Few rows, a result that is also the caller's, and one that nothing but a product reads.
  CHECK(products("16", "  %y: f32[16, 1024] = aten.relu.default(%p)\n  output %y user") == 0);
  CHECK(products("512", view + relu + "\n  output %p user") == 0);
  CHECK(products("512",
                 "  %t: f32[1024, 512]{1, 1024} = aten.t.default(%p) view(0:0)\n"
                 "  %y: f32[1024, 1024] = aten.addmm.default(%b, %t, %p, 1, 1)\n"
                 "  output %y user") == 0);
}

TEST_CASE("batches of transposed matrices are copied before they are multiplied",
          "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %q: f32[12, 6, 64] user
    input %k: f32[12, 6, 64] user
    input %s: f32[12, 1, 64] user
    input %m: f32[12, 64, 64] user
    %t: f32[12, 64, 6]{384, 1, 64} = aten.transpose.int(%k, 1, 2) view(0:0)
    %y: f32[12, 6, 6] = aten.bmm.default(%q, %t)
    %z: f32[12, 6, 64] = aten.bmm.default(%y, %k)
    %r: f32[12, 1, 6] = aten.bmm.default(%s, %t)
    %n: f32[12, 64, 6] = aten.bmm.default(%m, %t)
    output %z user
    output %n user
    output %r user
  })");

  const ir::Graph transposed = prepare_gemms(graph, kOpenBlas, false);
  ir::verify(transposed);
  CHECK(count_nodes(transposed, "aten.clone.default") == 1);
  // Many rows are multiplied by a kernel that packs panels.
  CHECK_THAT(ir::print(transposed), contains("aten.bmm.default(%m, %t)"));
  // A single row reads each number once.
  CHECK_THAT(ir::print(transposed), contains("aten.bmm.default(%s, %t)"));
}

TEST_CASE("a single number may be added to products", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %one: f32[] user
    input %x: f32[12, 64, 64] user
    input %k: f32[12, 6, 64] user
    input %r: f32[8, 512] user
    input %w: f32[512, 512] parameter "w"
    %t: f32[12, 64, 6]{384, 1, 64} = aten.transpose.int(%k, 1, 2) view(0:0)
    %y: f32[12, 64, 6] = aten.baddbmm.default(%one, %x, %t, 1, 1)
    %v: f32[512, 512]{1, 512} = aten.t.default(%w) view(0:0)
    %z: f32[8, 512] = aten.addmm.default(%one, %r, %v, 1, 1)
    output %y user
    output %z user
  })");

  const ir::Graph transposed = prepare_gemms(graph, kOpenBlas, true);

  ir::verify(transposed);
  CHECK(count_nodes(transposed, "aten.baddbmm.default") == 1);
  CHECK(count_nodes(transposed, "aten.addmm.default") == 1);
}

TEST_CASE("batches that no packed GEMM takes are transposed", "[codegen][prepare]") {
  // Too much to pack, and a product that is scaled.
  const ir::Graph graph = ir::parse(R"(graph g {
    input %q: f32[128, 1024, 64] user
    input %k: f32[128, 32, 64] user
    input %m: f32[128, 16, 64] user
    input %b: f32[128, 16, 32] user
    %t: f32[128, 64, 32]{2048, 1, 64} = aten.transpose.int(%k, 1, 2) view(0:0)
    %y: f32[128, 1024, 32] = aten.bmm.default(%q, %t)
    %z: f32[128, 16, 32] = aten.baddbmm.default(%b, %m, %t, 1, 2)
    %n: f32[128, 16, 32] = aten.baddbmm.default(%b, %m, %t, 1, 1)
    output %y user
    output %z user
    output %n user
  })");

  const std::string transposed = ir::print(prepare_gemms(graph, kOpenBlas, false));
  CHECK_THAT(transposed, !contains("aten.bmm.default(%q, %t)"));
  CHECK_THAT(transposed, !contains("%t, 1, 2)"));
  CHECK_THAT(transposed, contains("%t, 1, 1)"));
}

TEST_CASE("a constant that the program writes is not folded", "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[4] user
    input %mean: f32[4] buffer "mean"
    %m: f32[4] = aten.mul.Tensor(%mean, %mean)
    %y: f32[4] = aten.add.Tensor(%x, %m, 1)
    output %y user
    output %y mutation 1
  })");
  CHECK(split_constants(graph).folded() == 0);
}

TEST_CASE("what draws at random is not folded, and what grows too much neither",
          "[codegen][prepare]") {
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[4096, 512] user
    input %w: f32[512] parameter "w"
    %e: f32[4096, 512]{0, 1} = aten.expand.default(%w, [4096, 512], false) view(0:0)
    %m: f32[4096, 512] = aten.exp.default(%e)
    %y: f32[4096, 512] = aten.mul.Tensor(%x, %m)
    %r: f32[512] = aten.bernoulli.p(%w, 0.5, none) random
    output %y user
    output %r user
  })");
  CHECK(split_constants(graph).folded() == 0);
}

}  // namespace
}  // namespace kiln::codegen

// Products that the container computes by cuBLASLt, as far as they can be seen without a GPU.
// tests/cuda runs them.

#include <cstddef>
#include <optional>
#include <string>

#include "backend/cuda/cuda_backend.hpp"
#include "kiln/container_runtime/cuda_kernels.h"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/testing/catch2.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

// The product of the schedule, if it is not left to libtorch.
std::optional<KernelCall> product_in(const std::string& inputs, const std::string& nodes) {
  const CudaBackend backend({"sm_90"});
  const ir::Graph graph = backend.prepare(
      ir::retarget(ir::parse("graph g {\n" + inputs + nodes + "  output %y user\n}\n"),
                   ir::DeviceType::kCuda),
      /*bind_constants=*/false);
  const Schedule plan = schedule(graph, backend, false);
  for (const Step& step : plan.steps) {
    const auto* call = std::get_if<KernelCall>(&step);
    if (call != nullptr && std::holds_alternative<LibraryCall>(call->computation)) {
      return *call;
    }
  }
  return std::nullopt;
}

const std::string kInputs =
    "  input %x: bf16[40, 64] user\n  input %w: bf16[96, 64] user\n  input %b: bf16[96] user\n"
    "  input %c: bf16[40, 96] user\n";
const std::string kTransposed = "  %t: bf16[64, 96]{1, 64} = aten.t.default(%w) view(0:0)\n";

// A member of KilnCudaProduct by its offset.
Expr member(const LibraryCall& call, std::size_t offset) {
  return call.parameters.at(offset / sizeof(std::int64_t));
}

TEST_CASE("arguments of products are those that the container reads", "[codegen][cuda]") {
  const auto product = product_in(
      kInputs, kTransposed + "  %y: bf16[40, 96] = aten.addmm.default(%b, %x, %t, 1, 1)\n");

  REQUIRE(product);
  const auto& call = std::get<LibraryCall>(product->computation);
  REQUIRE(call.parameters.size() * sizeof(std::int64_t) == sizeof(KilnCudaProduct));
  CHECK(member(call, offsetof(KilnCudaProduct, m)) == Expr(40));
  CHECK(member(call, offsetof(KilnCudaProduct, n)) == Expr(96));
  CHECK(member(call, offsetof(KilnCudaProduct, k)) == Expr(64));
  CHECK(member(call, offsetof(KilnCudaProduct, lhs_stride)) == Expr(64));
  CHECK(member(call, offsetof(KilnCudaProduct, rhs_stride)) == Expr(64));
  CHECK(member(call, offsetof(KilnCudaProduct, result_stride)) == Expr(96));
  CHECK(member(call, offsetof(KilnCudaProduct, lhs_transposed)) == Expr(0));
  CHECK(member(call, offsetof(KilnCudaProduct, rhs_transposed)) == Expr(1));
  CHECK(member(call, offsetof(KilnCudaProduct, type)) == Expr(15));
  CHECK(member(call, offsetof(KilnCudaProduct, epilogue)) == Expr(KILN_CUDA_BIAS));
  const Expr workspace = member(call, offsetof(KilnCudaProduct, workspace_bytes));
  CHECK(workspace == call.scratch * Expr(4));
  // lhs, rhs, bias, result and workspace.
  CHECK(product->operands.size() == 5);
  CHECK(product->operands[3].written);
}

TEST_CASE("activations are epilogues of products", "[codegen][cuda]") {
  const auto epilogue_of = [](const std::string& activation) {
    const auto product =
        product_in(kInputs,
                   kTransposed + "  %p: bf16[40, 96] = aten.addmm.default(%b, %x, %t, 1, 1)\n" +
                       "  %y: bf16[40, 96] = " + activation + "\n");
    REQUIRE(product);
    return member(std::get<LibraryCall>(product->computation), offsetof(KilnCudaProduct, epilogue));
  };

  CHECK(epilogue_of("aten.relu.default(%p)") == Expr(KILN_CUDA_BIAS_RELU));
  CHECK(epilogue_of("aten.gelu.default(%p, \"tanh\")") == Expr(KILN_CUDA_BIAS_GELU));
  CHECK(epilogue_of("aten.gelu.default(%p, \"none\")") == Expr(KILN_CUDA_BIAS));
}

TEST_CASE("operands of products lie in rows or columns, or the product is libtorch's",
          "[codegen][cuda]") {
  const auto layout_of = [](const std::string& nodes) {
    const auto product = product_in(
        "  symbol %s0 in [1, 512]\n  input %x: bf16[40, 64] user\n  input %v: bf16[s0, 64] user\n"
        "  input %f: f32[40, 64] user\n  input %c: bf16[40, 40] user\n",
        nodes);
    if (!product) {
      return std::string("libtorch");
    }
    const auto& call = std::get<LibraryCall>(product->computation);
    std::string text;
    for (const std::size_t offset : {offsetof(KilnCudaProduct, m),
                                     offsetof(KilnCudaProduct, lhs_stride),
                                     offsetof(KilnCudaProduct, lhs_transposed),
                                     offsetof(KilnCudaProduct, rhs_stride),
                                     offsetof(KilnCudaProduct, rhs_transposed)}) {
      text += member(call, offset).to_string() + " ";
    }
    return text;
  };
  const std::string columns = "  %t: bf16[64, 40]{1, 64} = aten.t.default(%x) view(0:0)\n";

  CHECK(layout_of(columns + "  %y: bf16[40, 40] = aten.mm.default(%x, %t)\n") == "40 64 0 64 1 ");
  CHECK(layout_of(columns + "  %y: bf16[64, 64] = aten.mm.default(%t, %x)\n") == "64 64 1 64 0 ");
  CHECK(layout_of(columns + "  %y: bf16[s0, 40] = aten.mm.default(%v, %t)\n") == "s0 64 0 64 1 ");
  CHECK(layout_of("  %a: bf16[40, 20]{64, 1}@3 = aten.slice.Tensor(%x, 1, 3, 23, 1) view(0:0)\n"
                  "  %b: bf16[20, 64] = aten.slice.Tensor(%x, 0, 0, 20, 1) view(0:0)\n"
                  "  %y: bf16[40, 64] = aten.mm.default(%a, %b)\n") == "40 64 0 64 0 ");
  // Every other column.
  CHECK(layout_of("  %a: bf16[40, 32]{64, 2} = aten.slice.Tensor(%x, 1, 0, 64, 2) view(0:0)\n"
                  "  %b: bf16[32, 64] = aten.slice.Tensor(%x, 0, 0, 32, 1) view(0:0)\n"
                  "  %y: bf16[40, 64] = aten.mm.default(%a, %b)\n") == "libtorch");
  // Another factor, another type.
  CHECK(layout_of(columns + "  %y: bf16[40, 40] = aten.addmm.default(%c, %x, %t, 2, 1)\n") ==
        "libtorch");
  CHECK(layout_of("  %t: f32[64, 40]{1, 64} = aten.t.default(%f) view(0:0)\n"
                  "  %y: f32[40, 40] = aten.mm.default(%f, %t)\n") == "libtorch");
}

TEST_CASE("a matrix is added by the product, if it lies in rows", "[codegen][cuda]") {
  const auto addend_of = [](const std::string& addend, const std::string& view) {
    const auto product =
        product_in(kInputs + "  input %m: bf16[96, 40] user\n",
                   kTransposed + view + "  %y: bf16[40, 96] = aten.addmm.default(" + addend +
                       ", %x, %t, 1, 1)\n");
    if (!product) {
      return std::string("libtorch");
    }
    const auto& call = std::get<LibraryCall>(product->computation);
    CHECK(member(call, offsetof(KilnCudaProduct, epilogue)) == Expr(KILN_CUDA_NO_EPILOGUE));
    // lhs, rhs, addend, result and workspace.
    CHECK(product->operands.size() == 5);
    return member(call, offsetof(KilnCudaProduct, addend_stride)).to_string();
  };

  CHECK(addend_of("%c", "") == "96");
  CHECK(addend_of("%n", "  %n: bf16[40, 96]{1, 40} = aten.t.default(%m) view(0:0)\n") ==
        "libtorch");
  CHECK(
      addend_of("%n", "  %n: bf16[40, 96]{0, 1} = aten.expand.default(%b, [40, 96]) view(0:0)\n") ==
      "libtorch");
}

TEST_CASE("a product has the workspace that parts of its sums may need", "[codegen][cuda]") {
  const auto workspace_of = [](const std::string& rows, const std::string& symbols) {
    const auto product = product_in(
        symbols + "  input %x: bf16[" + rows + ", 64] user\n  input %w: bf16[64, 96] user\n",
        "  %y: bf16[" + rows + ", 96] = aten.mm.default(%x, %w)\n");
    REQUIRE(product);
    return *member(std::get<LibraryCall>(product->computation),
                   offsetof(KilnCudaProduct, workspace_bytes))
                .constant() >>
           20;
  };

  CHECK(workspace_of("8", "") == 1);
  CHECK(workspace_of("512", "") == 3);
  CHECK(workspace_of("s0", "  symbol %s0 in [1, 512]\n") == 3);
  CHECK(workspace_of("100000", "") == 32);
  CHECK(workspace_of("s0", "  symbol %s0 in [1, 9223372036854775807]\n") == 32);
}

}  // namespace
}  // namespace kiln::codegen

#include "backend/cuda/library/product.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/target/tuning.hpp"
#include "graph/arguments.hpp"

namespace kiln::codegen::cuda {
namespace {

using ir::Expr;
using ir::ValueId;

// The members of KilnCudaProduct (kiln/container_runtime/cuda_kernels.h).
const std::array<LibraryField, 12> kFields = {{{"m"},
                                               {"n"},
                                               {"k"},
                                               {"lhs_stride"},
                                               {"rhs_stride"},
                                               {"addend_stride"},
                                               {"result_stride"},
                                               {"lhs_transposed"},
                                               {"rhs_transposed"},
                                               {"type"},
                                               {"epilogue"},
                                               {"workspace_bytes"}}};

// KilnCudaEpilogue.
enum class ProductEpilogue { kNone, kBias, kBiasRelu, kBiasGelu };

struct Product {
  ValueId lhs, rhs;
  ValueId bias = {};    // Invalid: there is none.
  ValueId addend = {};  // Likewise.
  ProductEpilogue epilogue = ProductEpilogue::kNone;
};

std::optional<Product> find_product(const ir::Graph& graph, const ir::Node& node) {
  if (node.target == "aten.mm.default") {
    return Product{operand(node, 0), operand(node, 1)};
  }
  const bool has_activation = node.target == "aten._addmm_activation.default";
  if ((!has_activation && node.target != "aten.addmm.default") || !is_one(node.arguments[3]) ||
      !is_one(node.arguments[4])) {
    return std::nullopt;
  }
  Product product{operand(node, 1), operand(node, 2)};
  const ValueId added = operand(node, 0);
  if (graph.tensor(added).sizes.size() == 2 && !has_activation) {
    product.addend = added;
    return product;
  }
  product.bias = added;
  product.epilogue = ProductEpilogue::kBias;
  if (has_activation) {
    const bool* const is_gelu = std::get_if<bool>(&node.arguments[5]);
    product.epilogue =
        is_gelu != nullptr && *is_gelu ? ProductEpilogue::kBiasGelu : ProductEpilogue::kBiasRelu;
  }
  return product;
}

// A matrix in rows, or in columns: from one to the next.
struct Layout {
  Expr stride;
  bool transposed = false;
};

std::optional<Layout> layout_of(const ir::Graph& graph,
                                const StridedView& view,
                                const std::vector<Expr>& sizes) {
  for (const bool transposed : {false, true}) {
    const std::size_t along = transposed ? 0 : 1, across = 1 - along;
    const Expr gap = view.strides[across] + sizes[along] * Expr(-1);
    if (view.strides[along] == Expr(1) && gap.bounds(graph.symbols()).low >= 0) {
      return Layout{view.strides[across], transposed};
    }
  }
  return std::nullopt;
}

bool is_bias(const ir::TensorMeta& bias, const StridedView& view, const ir::TensorMeta& result) {
  return bias.dtype == result.dtype && bias.sizes.size() == 1 && view.strides[0] == Expr(1) &&
         bias.sizes[0] == result.sizes[1];
}

// Enough for as many parts of sums as are useful; a large result needs none.
std::int64_t workspace_bytes(const ir::Graph& graph, const ir::TensorMeta& result) {
  const ProductTuning& tuning = kTuning.products;
  const std::int64_t elements = ir::element_count(result.sizes).bounds(graph.symbols()).high;
  return std::clamp(std::min(elements, tuning.max_workspace_bytes) * tuning.workspace_of_element,
                    tuning.min_workspace_bytes,
                    tuning.max_workspace_bytes);
}

bool is_positive(const ir::Graph& graph, const Expr& size) {
  return size.bounds(graph.symbols()).low > 0;
}

}  // namespace

std::optional<LibraryMatch> match_product(const MatchContext& context, const ir::Node& node) {
  const auto& [graph, uses, program] = context;
  const std::optional<Product> product = find_product(graph, node);
  if (!product) {
    return std::nullopt;
  }
  const ir::TensorMeta& lhs = graph.tensor(product->lhs);
  const ir::TensorMeta& rhs = graph.tensor(product->rhs);
  const ir::TensorMeta& result = graph.tensor(node.results[0]);
  if (!ir::is_half(result.dtype) || lhs.dtype != result.dtype || rhs.dtype != result.dtype ||
      !is_positive(graph, lhs.sizes[1])) {
    return std::nullopt;
  }
  std::vector<StridedView> operands = {strided_view_of(program, product->lhs),
                                       strided_view_of(program, product->rhs)};
  const std::optional<Layout> lhs_layout = layout_of(graph, operands[0], lhs.sizes);
  const std::optional<Layout> rhs_layout = layout_of(graph, operands[1], rhs.sizes);
  if (product->bias.valid()) {
    operands.push_back(strided_view_of(program, product->bias));
    if (!is_bias(graph.tensor(product->bias), operands.back(), result)) {
      return std::nullopt;
    }
  }
  Expr addend_stride = 0;
  if (product->addend.valid()) {
    operands.push_back(strided_view_of(program, product->addend));
    const ir::TensorMeta& addend = graph.tensor(product->addend);
    const std::optional<Layout> layout = layout_of(graph, operands.back(), addend.sizes);
    if (addend.dtype != result.dtype || addend.sizes != result.sizes || !layout ||
        layout->transposed) {
      return std::nullopt;
    }
    addend_stride = layout->stride;
  }
  operands.push_back(own_memory_of(program, node.results[0]));
  if (!lhs_layout || !rhs_layout ||
      operands.back().strides != ir::contiguous_strides(result.sizes)) {
    return std::nullopt;
  }
  const std::int64_t workspace = workspace_bytes(graph, result);
  LibraryCall call{.operation = kProduct,
                   .parameters = {lhs.sizes[0],
                                  result.sizes[1],
                                  lhs.sizes[1],
                                  lhs_layout->stride,
                                  rhs_layout->stride,
                                  addend_stride,
                                  result.sizes[1],
                                  Expr(lhs_layout->transposed ? 1 : 0),
                                  Expr(rhs_layout->transposed ? 1 : 0),
                                  Expr(static_cast<std::int64_t>(result.dtype)),
                                  Expr(static_cast<std::int64_t>(product->epilogue)),
                                  Expr(workspace)},
                   .fields = kFields,
                   .scratch = Expr(workspace / std::int64_t{sizeof(float)})};
  return LibraryMatch{std::move(call), std::move(operands)};
}

std::string product_launcher() {
  return R"(extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes, void* stream, const char** error) {
  *error = kiln_cuda_multiply(sizes, buffers, stream);
}
)";
}

std::string product_declarations() {
  // `sizes` are the members of a KilnCudaProduct.
  return "extern \"C\" HIDDEN const char* kiln_cuda_multiply(const long long*, void* const*, "
         "void*);\n";
}

}  // namespace kiln::codegen::cuda

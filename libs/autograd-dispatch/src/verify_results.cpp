#include "verify_results.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "kiln/base/error.hpp"
#include "read_symbols.hpp"

namespace kiln::autograd_dispatch {
namespace {

struct Expected {
  bool is_returned = false;  // To the caller, who sees its strides.
  ir::TensorMeta meta = {};
};

// By result.
std::vector<std::optional<Expected>> expected_results(const ir::Graph& graph) {
  std::vector<std::optional<Expected>> expected;
  for (const ir::Output& output : graph.outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      continue;
    }
    const bool is_tensor = output.value.valid() && graph.value(output.value).is_tensor();
    expected.push_back(is_tensor ? std::optional(Expected{output.kind == ir::OutputKind::kUser,
                                                          graph.tensor(output.value)})
                                 : std::nullopt);
  }
  return expected;
}

// Symbols that a backward takes as integers are left out, and sizes that mention them unchecked.
std::vector<ir::SymbolSource> sizes_of_inputs(const ir::Graph& graph) {
  std::vector<ir::SymbolSource> sources = ir::find_symbol_sources(graph);
  std::erase_if(sources, [](const ir::SymbolSource& source) { return source.dimension < 0; });
  return sources;
}

std::optional<std::int64_t> value_of(const ir::Expr& expression, const ir::Bindings& symbols) {
  const std::vector<std::string> used = expression.symbols();
  const bool is_known =
      std::ranges::all_of(used, [&](const std::string& name) { return symbols.contains(name); });
  return is_known ? std::optional(expression.evaluate(symbols)) : std::nullopt;
}

// Empty if it is as expected.
std::string difference(const at::Tensor& found,
                       const Expected& expected,
                       const ir::Bindings& symbols) {
  const ir::TensorMeta& meta = expected.meta;
  if (found.scalar_type() != static_cast<c10::ScalarType>(meta.dtype)) {
    return c10::str(found.scalar_type(), " elements instead of ", ir::to_string(meta.dtype));
  }
  if (static_cast<int>(found.device().type()) != static_cast<int>(meta.device.type)) {
    return c10::str("device ", found.device(), " instead of ", ir::to_string(meta.device));
  }
  if (static_cast<std::size_t>(found.dim()) != meta.sizes.size()) {
    return c10::str(found.dim(), " dimensions instead of ", meta.sizes.size());
  }
  for (std::int64_t d = 0; d < found.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (const auto size = value_of(meta.sizes[i], symbols); size && *size != found.size(d)) {
      return c10::str("size ", found.size(d), " instead of ", *size, " in dimension ", d);
    }
    const auto stride = value_of(meta.strides[i], symbols);
    if (expected.is_returned && stride && found.numel() > 0 && found.size(d) > 1 &&
        *stride != found.stride(d)) {
      return c10::str("stride ", found.stride(d), " instead of ", *stride, " in dimension ", d);
    }
  }
  return {};
}

}  // namespace

CompiledGraph verifying_results(CompiledGraph compiled, const ir::Graph& graph, std::string id) {
  return [run = std::move(compiled),
          expected = expected_results(graph),
          sources = sizes_of_inputs(graph),
          id = std::move(id)](Tensors inputs) {
    const ir::Bindings symbols = read_symbols(sources, inputs);
    Tensors results = run(std::move(inputs));
    if (results.size() != expected.size()) {
      throw Error(
          ErrorCode::kInternal,
          c10::str(id, " returns ", results.size(), " tensors instead of ", expected.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!expected[i] || !results[i].defined()) {
        continue;
      }
      if (const std::string what = difference(results[i], *expected[i], symbols); !what.empty()) {
        throw Error(ErrorCode::kInternal, c10::str("result ", i, " of ", id, " has ", what));
      }
    }
    return results;
  };
}

}  // namespace kiln::autograd_dispatch

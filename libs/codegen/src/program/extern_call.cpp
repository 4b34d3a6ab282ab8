#include "program/extern_call.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include "libtorch/call_path.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// Kernels read what the plan says, and a caller is promised the types. What only goes on to
// libtorch may be as it likes: some of its operators return nothing where a trace saw something.
void expect(Emission& emission, const ir::Node& node, BufferId id) {
  const BufferPlan& plan = emission.program().plan(id);
  if (!plan.needs_pointer && !plan.escapes) {
    return;
  }
  const Buffer& buffer = emission.program().buffer(id);
  const std::string refusal =
      node.target + " returned another type, or other sizes, than the model was compiled for";
  const std::string rank = plan.needs_pointer ? std::to_string(buffer.sizes.size()) : "-1";
  emission.text().line("TRY(expect(call, $, $, $, $, $));",
                       string_literal(refusal),
                       emission.owned(id),
                       static_cast<int>(buffer.dtype),
                       rank,
                       plan.needs_pointer ? emission.list(buffer.sizes) : "nullptr");
}

// The kernels rely on the strides that were planned; libtorch may choose others, if it was given
// another layout than the trace saw, or is another version.
void ensure_strides(Emission& emission, BufferId id) {
  const Buffer& buffer = emission.program().buffer(id);
  if (!buffer.sizes.empty()) {
    emission.text().line("TRY(ensure_strides($, $, $, $, $));",
                         emission.owned(id),
                         buffer.sizes.size(),
                         emission.list(buffer.sizes),
                         emission.list(buffer.strides),
                         static_cast<int>(buffer.dtype));
  }
}

}  // namespace

void emit_extern_call(Emission& emission, const ir::Node& node, std::uint32_t step) {
  const Program& program = emission.program();
  switch (choose_call_path(*program.graph, node)) {
    case CallPath::kShimOut: emit_shim_call(emission, node, true); return;
    case CallPath::kShim: emit_shim_call(emission, node, false); break;
    case CallPath::kDispatcher: emit_dispatcher_call(emission, node); break;
    case CallPath::kProxy: emit_proxy_call(emission, node); break;
  }
  emission.release_scratch();
  for (const ir::ValueId result : node.results) {
    if (!result.valid() || !program.location(result)) {
      continue;
    }
    const BufferId buffer = program.location(result)->buffer;
    expect(emission, node, buffer);
    ensure_strides(emission, buffer);
    if (program.plan(buffer).needs_pointer && program.plan(buffer).last > step) {
      emission.text().line(
          "TRY(aoti_torch_get_data_ptr($, &m.at[$]));", emission.owned(buffer), buffer.index());
    }
  }
}

}  // namespace kiln::codegen

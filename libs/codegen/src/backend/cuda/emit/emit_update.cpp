// Scatters: a thread per vector of updates.

#include <algorithm>
#include <string>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {

// Vectors are stored whole, or added by vector atomics.
int NestEmitter::choose_update_vector(const LoopNest::Update& update) {
  const ir::DType dtype = text_.dtype(update.operand);
  const std::int64_t size = ir::size_of(dtype);
  const bool adds =
      update.reduction == Reduction::kSum && ir::is_floating_point(dtype) && size <= 4;
  if (update.reduction && !adds) {
    return 1;
  }
  for (block_.vector = static_cast<int>(std::min<std::int64_t>(8, 16 / size)); block_.vector > 1;
       block_.vector /= 2) {
    if (divides(block_.vector, update.extents[kInner]) && is_packed(update.address)) {
      break;
    }
  }
  return block_.vector;
}

// Only updates along the middle loop may collide: those are atomic.
void NestEmitter::emit_update(const LoopNest::Update& update) {
  block_ = {};
  block_.vector = choose_update_vector(update);
  const bool is_vector = block_.vector > 1;
  const std::string vector = std::to_string(block_.vector);
  const std::string count =
      text_.size(update.extents[kOuter] * update.extents[kMiddle] * update.extents[kInner]);
  const std::string row = code("($ / $)", text_.size(update.extents[kInner]), vector);
  const std::string middle = text_.size(update.extents[kMiddle]);
  const std::string type(memory_type(text_.dtype(update.operand)));
  const bool is_alone = update.extents[kMiddle] == ir::Expr(1) && !is_vector;

  open_kernel("update", block_.width);
  body_.line("const Int i = (Int)blockIdx.x * $ + threadIdx.x;", block_.width);
  body_.line("if (i >= $ / $) return;", count, vector);
  body_.line("const Int q = i / $, j = i % $ * $;", row, row, vector);
  body_.line("const Int m = q % $, o = q / $;", middle, middle);
  if (text_.checks_indices) {
    body_.line("bool ok = true;");
  }
  ScalarWriter writer(text_);
  const auto place = [&] {
    return code("$ + ($)", text_.operand(update.operand), writer.index(update.address));
  };
  if (is_vector) {
    std::unordered_set<ScalarId> seen;
    std::vector<ScalarId> loads;
    collect_unconditional_loads(program_.pool, update.value, seen, loads);
    std::erase_if(loads, [&](ScalarId load) { return !is_packed(text_.scalar(load).indices[0]); });
    const std::string to = place();
    ScalarWriter element = writer;
    for (const ScalarId load : loads) {
      load_vector(load, "", writer);
      element.set(load, "value(" + vector_of(load) + "[v])");
    }
    body_.line("alignas(16) $ y[$];", type, vector);
    body_.line("const Int j0 = j;");
    body_.directive("#pragma unroll");
    {
      const CodeWriter::Scope loop = body_.scope("for (int v = 0; v < $; ++v)", vector);
      body_.line("const Int j = j0 + v;");
      const std::string value = element.value(update.value);
      body_.line("y[v] = stored<$>($);", type, value);
    }
    body_.line("$$<$>($, y, aligned);",
               if_ok(),
               update.reduction ? "add_vector" : "copy_vector",
               vector,
               to);
  } else {
    const std::string value = writer.value(update.value);
    const std::string to = place();
    const std::string combine(update.reduction ? combiner(*update.reduction) : "");
    const std::string converted = code("($)$", compute_type(text_.dtype(update.operand)), value);
    if (!update.reduction) {
      body_.line("$*($) = stored<$>($);", if_ok(), to, type, value);
    } else if (is_alone) {
      body_.line(
          "$*($) = stored<$>($::of(value(*($)), $));", if_ok(), to, type, combine, to, converted);
    } else {
      body_.line("$Atomic<$, $>::apply($, $);", if_ok(), combine, type, to, converted);
    }
  }
  report_bad_index();
  body_.close();
  add_launch("update",
             divided_up("(" + count + " / " + vector + ")", std::to_string(block_.width)),
             "1",
             block_.width,
             1);
}

}  // namespace kiln::codegen::cuda

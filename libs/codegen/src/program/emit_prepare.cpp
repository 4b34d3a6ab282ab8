#include <algorithm>
#include <string>
#include <vector>

#include "program/emit.hpp"

namespace kiln::codegen {
namespace {

// With fixed sizes the arena is laid out by tables: compilers take longer over code than over data.
constexpr const char* kTables = R"(
struct Placement {
  int buffer;
  Int64 offset;
};
struct ViewInit {
  int view, buffer;
  Int64 offset;
  int rank, dtype;
  const Int64 *sizes, *strides;
};
)";

std::string in_braces(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return code("{$}", text);
}

bool is_in_arena(const BufferPlan& plan) {
  return plan.used && plan.memory == Memory::kArena;
}

void emit_fixed(CodeWriter& text, Emission& emission) {
  const Program& program = emission.program();
  std::vector<std::string> placements;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (is_in_arena(program.buffers[i])) {
      placements.push_back(
          in_braces({std::to_string(i), std::to_string(program.buffers[i].offset)}));
    }
  }
  std::vector<std::string> view_inits;
  for (std::size_t i = 0; i < program.views.size(); ++i) {
    const View& view = program.views[i];
    if (is_in_arena(program.plan(view.buffer))) {
      view_inits.push_back(in_braces({std::to_string(i),
                                      std::to_string(view.buffer.index()),
                                      emission.byte_offset(view),
                                      std::to_string(view.sizes.size()),
                                      std::to_string(static_cast<int>(view.dtype)),
                                      emission.list(view.sizes),
                                      emission.list(view.strides)}));
    }
  }
  if (!placements.empty()) {
    text.verbatim(kTables);
    text.line("static const Placement placements[] = $;", in_braces(placements));
  }
  if (!view_inits.empty()) {
    text.line("static const ViewInit view_inits[] = $;", in_braces(view_inits));
  }
  if (program.arena_bytes != 0) {
    text.verbatim(emission.operations().allocate);
  }
  text.line();
  const CodeWriter::Scope function = text.scope("static int prepare(Instance& m)");
  if (program.arena_bytes != 0) {
    text.line("m.arena = allocate($);", program.arena_bytes);
    text.line("if (!m.arena) return 1;");
  }
  if (!placements.empty()) {
    text.line("for (const Placement& p : placements) m.at[p.buffer] = m.arena + p.offset;");
  }
  if (!view_inits.empty()) {
    text.line(
        "for (const ViewInit& l : view_inits) "
        "TRY(make_view(m.view[l.view], m.at[l.buffer], l.offset, l.rank, l.sizes, l.strides, "
        "l.dtype));");
  }
  text.line("return 0;");
}

// When which buffer of the arena is in use.
void emit_lifetimes(CodeWriter& text, const Program& program) {
  text.line();
  const CodeWriter::Scope table = text.declaration("static const KilnLifetime lifetimes[] =");
  for (const BufferPlan& buffer : program.buffers) {
    if (is_in_arena(buffer)) {
      text.line("$,", in_braces({std::to_string(buffer.first), std::to_string(buffer.last)}));
    }
  }
}

// Memory for the sizes of the call, and the place of each buffer in it.
void emit_places(CodeWriter& text, const Emission& emission) {
  const Program& program = emission.program();
  std::vector<std::size_t> placed;
  {
    const CodeWriter::Scope table = text.declaration("const Int64 bytes[] =");
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      if (is_in_arena(program.buffers[i])) {
        const Buffer& buffer = program.schedule->buffers[i];
        text.line("$,", emission.number(extent_bytes(buffer.sizes, buffer.strides, buffer.dtype)));
        placed.push_back(i);
      }
    }
  }
  const std::string count = std::to_string(placed.size());
  text.line("Int64 offsets[$];", count);
  text.line("const Int64 wanted = kiln_plan_arena(lifetimes, bytes, $, offsets);", count);
  text.line("if (wanted < 0) return 1;");
  {
    const CodeWriter::Scope branch = text.scope("if (wanted > m.capacity)");
    text.line("$(m.arena);", emission.operations().free);
    text.line("m.capacity = 0;");
    text.line("m.arena = allocate((Size)wanted);");
    text.line("if (!m.arena) return 1;");
    text.line("m.capacity = wanted;");
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    text.line("m.at[$] = m.arena + offsets[$];", placed[i], i);
  }
}

void emit_symbolic(CodeWriter& text, Emission& emission) {
  const Program& program = emission.program();
  // Written first: they name lists, which must be filled before.
  std::vector<std::string> views;
  for (std::uint32_t i = 0; i < program.views.size(); ++i) {
    if (is_in_arena(program.plan(program.views[i].buffer))) {
      views.push_back(emission.make_view(i));
    }
  }
  const bool has_arena = std::ranges::any_of(program.buffers, is_in_arena);
  if (has_arena) {
    text.verbatim(emission.operations().allocate);
    emit_lifetimes(text, program);
  }
  text.line();
  const CodeWriter::Scope function = text.scope("RARELY static int prepare(Instance& m)");
  if (!program.views.empty()) {
    text.line("for (View& view : m.view) release(view.tensor);");
  }
  for (std::size_t i = 0; i < emission.lists().size(); ++i) {
    const std::vector<ir::Expr>& list = emission.lists()[i];
    for (std::size_t k = 0; !is_fixed(list) && k < list.size(); ++k) {
      text.line("m.n$[$] = $;", i, k, emission.number(list[k]));
    }
  }
  if (has_arena) {
    emit_places(text, emission);
  }
  for (const std::string& view : views) {
    text.line(view);
  }
  text.line("return 0;");
}

}  // namespace

void emit_prepare(CodeWriter& text, Emission& emission) {
  if (emission.program().dynamic()) {
    emit_symbolic(text, emission);
  } else {
    emit_fixed(text, emission);
  }
}

}  // namespace kiln::codegen

// What the functions of a program share while they are written: declarations, tensors and views.

#include <algorithm>

#include "kiln/base/error.hpp"
#include "program/emit.hpp"
#include "program/expression.hpp"

namespace kiln::codegen {
namespace {

// Smaller outputs come from memory that the process already has, not from the system.
constexpr std::int64_t kLargeOutput = 32 << 20;

}  // namespace

Emission::Emission(const Program& program, const DeviceOperations& operations)
    : program_(program),
      operations_(operations),
      owned_index_(program.buffers.size()),
      has_view_(program.views.size()) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferPlan& plan = program.buffers[i];
    if (plan.used &&
        (plan.memory == Memory::kAllocated || plan.memory == Memory::kCalleeAllocated)) {
      owned_index_[i] = owned_count_++;
    }
  }
  for (std::size_t i = 0; i < program.views.size(); ++i) {
    // Views of the arena are created with it.
    has_view_[i] = program.plan(program.views[i].buffer).memory == Memory::kArena;
  }
  declare("aoti_torch_delete_tensor_object", "Handle");
  declare("aoti_torch_get_dtype", "Handle, int*");
  declare("aoti_torch_get_dim", "Handle, Int64*");
  declare("aoti_torch_get_sizes", "Handle, Int64**");
  declare("aoti_torch_get_strides", "Handle, Int64**");
  declare("aoti_torch_get_data_ptr", "Handle, void**");
  declare("aoti_torch_empty_strided", "Int64, const Int64*, const Int64*, int, int, int, Handle*");
  declare("aoti_torch_copy_", "Handle, Handle, int");
  declare("aoti_torch_create_tensor_from_blob_v2",
          "void*, Int64, const Int64*, const Int64*, Int64, int, int, int, Handle*, int, const "
          "unsigned char*, Int64");
}

std::string Emission::number(const ir::Expr& expr) const {
  return expr.is_constant() ? std::to_string(*expr.constant()) : to_source(expr, "m.symbol_");
}

std::string Emission::number(const ir::RealExpr& real) const {
  return to_source(real, "m.symbol_");
}

std::string Emission::list(const std::vector<ir::Expr>& values) {
  if (values.empty()) {
    return "nullptr";
  }
  std::string key;
  for (const ir::Expr& value : values) {
    key += value.to_string() + ",";
  }
  const auto [entry, added] = list_index_.try_emplace(key, lists_.size());
  if (added) {
    lists_.push_back(values);
  }
  return (is_fixed(values) ? "n" : "m.n") + std::to_string(entry->second);
}

std::string Emission::owned(BufferId buffer) const {
  return code("m.owned[$]", owned_index_[buffer.index()]);
}

void Emission::allocate(BufferId id) {
  const Buffer& buffer = program_.buffer(id);
  const std::string layout = code("$, $, $, $",
                                  buffer.sizes.size(),
                                  list(buffer.sizes),
                                  list(buffer.strides),
                                  static_cast<int>(buffer.dtype));
  const std::int64_t bytes =
      extent_bytes(buffer.sizes, buffer.strides, buffer.dtype).constant().value_or(0);
  const bool is_large = bytes >= kLargeOutput && !operations_.use_large_pages.empty();
  const std::string pointer = code("m.at[$]", id.index());
  if (program_.plan(id).needs_pointer || is_large) {
    text_.line("TRY(make($, $, $));", owned(id), pointer, layout);
  } else {
    text_.line(
        "TRY(aoti_torch_empty_strided($, $, &$));", layout, operations_.arguments(), owned(id));
  }
  if (is_large) {
    text_.line("use_large_pages($, $ULL);", pointer, bytes);
  }
}

std::string Emission::whole(BufferId id) const {
  const std::string index = std::to_string(program_.buffer(id).index);
  switch (program_.plan(id).memory) {
    case Memory::kInput: return code("call.inputs[$]", index);
    case Memory::kConstant: return code("call.constants[$]", index);
    default: return owned(id);
  }
}

std::string Emission::byte_offset(const View& view) const {
  return number(view.offset * ir::Expr(ir::size_of(view.dtype)));
}

std::string Emission::make_view(std::uint32_t index) {
  const View& view = program_.views[index];
  const std::string offset = byte_offset(view);
  return code("TRY(make_view(m.view[$], m.at[$], $, $, $, $, $));",
              index,
              view.buffer.index(),
              offset,
              view.sizes.size(),
              list(view.sizes),
              list(view.strides),
              static_cast<int>(view.dtype));
}

std::string Emission::reinterpreted(const Location& location) {
  declare("aoti_torch__reinterpret_tensor",
          "Handle, Int64, const Int64*, const Int64*, Int64, Handle*");
  const std::string name = scratch();
  text_.line("TRY(aoti_torch__reinterpret_tensor($, $, $, $, $, &$));",
             whole(location.buffer),
             location.sizes.size(),
             list(location.sizes),
             list(location.strides),
             number(location.offset),
             name);
  return name;
}

std::string Emission::detached(ir::ValueId value) {
  const Location& location = *program_.location(value);
  return program_.plan(location.buffer).memory == Memory::kArena ? tensor(value)
                                                                 : reinterpreted(location);
}

std::string Emission::tensor(ir::ValueId value, bool owning) {
  const Location& location = *program_.location(value);
  if (!needs_view(program_, location)) {
    return whole(location.buffer);
  }
  const ir::TensorMeta& meta = program_.graph->tensor(value);
  if (meta.conjugate || meta.negative) {
    throw Error(ErrorCode::kUnsupported,
                "%" + program_.graph->value(value).name + " is a conjugated or negated view");
  }
  if (owning && program_.plan(location.buffer).memory != Memory::kArena) {
    return reinterpreted(location);
  }
  const std::optional<std::uint32_t> found = find_view(program_, location);
  ensure(found.has_value(), "an extern call uses a view that was not planned");
  const std::uint32_t index = *found;
  if (!has_view_[index]) {
    has_view_[index] = true;
    text_.line(make_view(index));
  }
  return code("m.view[$].tensor", index);
}

std::string Emission::scratch() {
  const std::uint32_t index = owned_count_ + scratch_++;
  most_scratch_ = std::max(most_scratch_, scratch_);
  return code("m.owned[$]", index);
}

void Emission::release_scratch() {
  while (scratch_ > 0) {
    text_.line("release(m.owned[$]);", owned_count_ + --scratch_);
  }
}

std::string Emission::pointer(BufferId id, const ir::Expr& offset) const {
  const std::string base = code("m.at[$]", id.index());
  if (offset == ir::Expr(0)) {
    return base;
  }
  return code("(char*)$ + $", base, byte_offset(id, offset));
}

std::string Emission::byte_offset(BufferId id, const ir::Expr& offset) const {
  return number(offset * ir::Expr(ir::size_of(program_.buffer(id).dtype)));
}

std::string Emission::declare(const std::string& name,
                              const std::string& parameters,
                              const std::string& result) {
  declarations_.try_emplace(name, result + " " + name + "(" + parameters + ");");
  return name;
}

std::string Emission::declare_for_device(const std::string& name, const std::string& parameters) {
  const std::string full = operations_.shim_prefix + name;
  if (operations_.find_function.empty()) {
    return declare(full, parameters);
  }
  lookups_.try_emplace(full, "int (*" + full + ")(" + parameters + ")");
  return full;
}

std::optional<std::size_t> Emission::flag(std::uint32_t kernel) const {
  const std::vector<KernelSource>& kernels = program_.kernels->kernels();
  if (!kernels[kernel].checks_indices) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(
      std::count_if(kernels.begin(), kernels.begin() + kernel, [](const KernelSource& other) {
        return other.checks_indices;
      }));
}

std::size_t Emission::flag_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(program_.kernels->kernels(), &KernelSource::checks_indices));
}

}  // namespace kiln::codegen

#include "schedule/concatenate_in_place.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "graph/aliases.hpp"
#include "kiln/ir/expr.hpp"

namespace kiln::codegen {
namespace {

using ir::Expr;

// Vectors of a part that begins elsewhere would lie across cache lines.
constexpr std::int64_t kAlignment = 64;

bool is_contiguous(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  const std::vector<Expr> expected = ir::contiguous_strides(sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    // The stride of a dimension of one element is never used.
    if (strides[d] != expected[d] && sizes[d] != Expr(1)) {
      return false;
    }
  }
  return true;
}

// A buffer becomes a piece of another one.
struct Part {
  BufferId buffer;
  Expr offset = 0;  // In elements.
};

class Concatenator {
 public:
  Concatenator(const ir::Graph& graph, Schedule& schedule)
      : graph_(graph), schedule_(schedule), dropped_(schedule.steps.size()) {}

  void run() {
    std::vector<bool> unused(schedule_.buffers.size());
    for (std::size_t step = 0; step < schedule_.steps.size(); ++step) {
      const ir::Node* node = concatenation_at(step);
      if (node == nullptr) {
        continue;
      }
      const std::optional<std::vector<Part>> parts = find_parts(*node, step);
      if (!parts) {
        continue;
      }
      const BufferId whole = schedule_.locations[node->results[0].index()]->buffer;
      for (const Part& part : *parts) {
        move(part, whole);
        unused[part.buffer.index()] = true;
      }
      dropped_[step] = true;
    }
    if (std::ranges::find(dropped_, true) != dropped_.end()) {
      remove(unused);
    }
  }

 private:
  [[nodiscard]] const ir::Node* extern_node(std::size_t step) const {
    const auto* call = std::get_if<ExternCall>(&schedule_.steps[step]);
    return call == nullptr || dropped_[step] ? nullptr : &graph_.node(call->node);
  }

  [[nodiscard]] const ir::Node* concatenation_at(std::size_t step) const {
    const ir::Node* node = extern_node(step);
    return node != nullptr && node->target == "aten.cat.default" && node->arguments.size() == 2
               ? node
               : nullptr;
  }

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return schedule_.buffers[id.index()]; }

  // The buffer of `value`, if that is all there is in it, in order.
  [[nodiscard]] std::optional<BufferId> whole_buffer(ir::ValueId value) const {
    const std::optional<Location>& location = schedule_.locations[value.index()];
    if (!location || location->offset != Expr(0) ||
        !is_contiguous(location->sizes, location->strides) ||
        ir::element_count(location->sizes) != ir::element_count(buffer(location->buffer).sizes)) {
      return std::nullopt;
    }
    return location->buffer;
  }

  // The parts of the concatenation `node`, if all of them can be written where they belong.
  [[nodiscard]] std::optional<std::vector<Part>> find_parts(const ir::Node& node,
                                                            std::size_t step) const {
    const auto* operands = std::get_if<std::vector<ir::ValueId>>(&node.arguments[0]);
    const auto* dimension = std::get_if<Expr>(&node.arguments[1]);
    const std::optional<BufferId> whole = whole_buffer(node.results[0]);
    if (operands == nullptr || dimension == nullptr || !dimension->constant() || !whole ||
        is_written_by_kernel(*whole)) {
      return std::nullopt;
    }
    const std::vector<Expr>& sizes = graph_.tensor(node.results[0]).sizes;
    const auto rank = static_cast<std::int64_t>(sizes.size());
    const std::int64_t dim = *dimension->constant() + (*dimension->constant() < 0 ? rank : 0);
    if (std::any_of(
            sizes.begin(), sizes.begin() + dim, [](const Expr& size) { return size != Expr(1); })) {
      return std::nullopt;  // The parts lie in pieces there.
    }
    std::vector<Part> parts;
    std::set<BufferId> seen{*whole};
    Expr offset = 0;
    for (const ir::ValueId operand : *operands) {
      const std::optional<BufferId> part = whole_buffer(operand);
      if (!part || !seen.insert(*part).second || !can_move(*part, *whole, step) ||
          !divides(kAlignment / ir::size_of(buffer(*part).dtype), offset)) {
        return std::nullopt;
      }
      parts.push_back({*part, offset});
      offset = offset + ir::element_count(buffer(*part).sizes);
    }
    return parts;
  }

  // Whether it is a kernel that writes to `id`.
  static bool writes(const Step& step, BufferId id) {
    const auto* call = std::get_if<KernelCall>(&step);
    return call != nullptr &&
           std::ranges::any_of(call->operands, [&](const KernelCall::Operand& operand) {
             return operand.written && operand.buffer == id;
           });
  }

  // An update in place would change the parts for those who still read them.
  [[nodiscard]] bool is_written_by_kernel(BufferId id) const {
    return std::ranges::any_of(schedule_.steps, [&](const Step& step) { return writes(step, id); });
  }

  // Whether `part` is written by kernels only, and not after `step`, where it has been copied.
  [[nodiscard]] bool can_move(BufferId part, BufferId whole, std::size_t step) const {
    const Buffer& from = buffer(part);
    const Buffer& to = buffer(whole);
    if (from.kind != Buffer::Kind::kTemporary || from.dtype != to.dtype ||
        from.device != to.device) {
      return false;
    }
    bool is_written = false;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (const ir::Node* node = extern_node(i)) {
        if (has_result_in(*node, part) ||
            (reads(*node, part) && !aliases_of(graph_, *node).empty())) {
          return false;
        }
      } else if (writes(schedule_.steps[i], part)) {
        is_written = true;
        if (i > step) {
          return false;
        }
      }
    }
    return is_written;
  }

  [[nodiscard]] bool lies_in(ir::ValueId value, BufferId part) const {
    return value.valid() && schedule_.locations[value.index()] &&
           schedule_.locations[value.index()]->buffer == part;
  }

  [[nodiscard]] bool has_result_in(const ir::Node& node, BufferId part) const {
    return std::ranges::any_of(node.results,
                               [&](ir::ValueId result) { return lies_in(result, part); });
  }

  [[nodiscard]] bool reads(const ir::Node& node, BufferId part) const {
    bool found = false;
    for_each_operand(node, [&](ir::ValueId value) { found = found || lies_in(value, part); });
    return found;
  }

  void move(const Part& part, BufferId whole) {
    for (std::optional<Location>& location : schedule_.locations) {
      if (location && location->buffer == part.buffer) {
        location->buffer = whole;
        location->offset = location->offset + part.offset;
      }
    }
    for (Step& step : schedule_.steps) {
      if (auto* call = std::get_if<KernelCall>(&step)) {
        for (KernelCall::Operand& operand : call->operands) {
          if (operand.buffer == part.buffer) {
            operand.buffer = whole;
            operand.offset = operand.offset + part.offset;
          }
        }
      }
    }
  }

  void remove(const std::vector<bool>& unused) {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < dropped_.size(); ++i) {
      if (!dropped_[i]) {
        steps.push_back(std::move(schedule_.steps[i]));
      }
    }
    std::vector<Buffer> buffers;
    std::vector<BufferId> renumbered(unused.size());
    for (std::size_t i = 0; i < unused.size(); ++i) {
      if (!unused[i]) {
        renumbered[i] = BufferId(buffers.size());
        buffers.push_back(std::move(schedule_.buffers[i]));
      }
    }
    for (std::optional<Location>& location : schedule_.locations) {
      if (location) {
        location->buffer = renumbered[location->buffer.index()];
      }
    }
    for (Step& step : steps) {
      if (auto* call = std::get_if<KernelCall>(&step)) {
        for (KernelCall::Operand& operand : call->operands) {
          operand.buffer = renumbered[operand.buffer.index()];
        }
      }
    }
    schedule_.steps = std::move(steps);
    schedule_.buffers = std::move(buffers);
  }

  const ir::Graph& graph_;
  Schedule& schedule_;
  std::vector<bool> dropped_;  // By step.
};

}  // namespace

void concatenate_in_place(const ir::Graph& graph, Schedule& schedule) {
  Concatenator(graph, schedule).run();
}

}  // namespace kiln::codegen

#include "schedule/update_in_place.hpp"

#include <set>
#include <span>

#include "graph/aliases.hpp"

namespace kiln::codegen {
namespace {

// Whether `memory` was allocated for the result of a node, and `reader` is its only use.
bool is_used_only_by(const ir::Graph& graph,
                     const ir::Uses& uses,
                     const Tensor& memory,
                     ir::NodeId reader) {
  if (memory.kind != Tensor::Kind::kMemory || !memory.node.valid() || !memory.value.valid() ||
      !aliases_of(graph, graph.node(memory.node)).empty() || uses.is_output(memory.value)) {
    return false;
  }
  const std::span<const ir::NodeId> readers = uses.of(memory.value);
  return readers.size() == 1 && readers[0] == reader;
}

bool loads(const ScalarPool& pool, const LoopNest::Update& update, std::int64_t operand) {
  std::set<ScalarId> seen;
  bool found = false;
  const auto visit = [&](auto&& self, ScalarId id) -> void {
    if (!seen.insert(id).second) {
      return;
    }
    const Scalar& scalar = pool[id];
    found = found || (scalar.op == ScalarOp::kLoad && scalar.integer == operand);
    for (const ScalarId part : scalar.operands) {
      self(self, part);
    }
    for (const Index& index : scalar.indices) {
      for_each_computed(index, [&](ScalarId part) { self(self, part); });
    }
  };
  visit(visit, update.value);
  for_each_computed(update.address, [&](ScalarId part) { visit(visit, part); });
  return found;
}

}  // namespace

std::optional<TensorId> find_in_place_update(const ir::Graph& graph,
                                             const ir::Uses& uses,
                                             const LoopProgram& program,
                                             const LoopNest& kernel) {
  if (!kernel.update || kernel.stores.size() != 1) {
    return std::nullopt;
  }
  const LoopNest::Store& store = kernel.stores[0];
  const Scalar& copied = program.pool[store.value];
  if (copied.op != ScalarOp::kLoad || !(copied.indices[0] == store.address)) {
    return std::nullopt;
  }
  const TensorId from = kernel.operands[static_cast<std::size_t>(copied.integer)].tensor;
  const Tensor& to = program[kernel.operands[store.operand].tensor];
  const bool may = program[from].dtype == to.dtype &&
                   is_used_only_by(graph, uses, program[from], to.node) &&
                   !loads(program.pool, *kernel.update, copied.integer);
  return may ? std::optional(from) : std::nullopt;
}

}  // namespace kiln::codegen

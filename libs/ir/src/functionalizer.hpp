// The state of functionalization: memories that are written, and the places in them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "functional_operator.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/ir/rewrite.hpp"
#include "view_writer.hpp"

namespace kiln::ir {

/// Runs once over one graph. "Old" values are the recorded graph's, "new" ones the functional
/// graph's.
class Functionalizer {
 public:
  explicit Functionalizer(const Graph& source);

  [[nodiscard]] Graph run();

 private:
  static constexpr std::uint32_t kUntracked = 0xffffffff;

  /// A stretch of memory that the graph writes.
  struct Memory {
    ValueId root =
        {};  // Old; invalid if no single value covers the memory, which is then seen as flat.
    TensorMeta geometry;  // Of the root, or flat.
    ValueId current =
        {};  // New: what the root holds now. Invalid for a flat memory until it is written.
    std::uint32_t version = 0;
    std::vector<ValueId> inputs = {};                           // Old graph inputs in it.
    std::unordered_multimap<std::size_t, ValueId> places = {};  // By hash of geometry.
  };

  /// The layout of an old value in its memory, and which new value holds its elements.
  struct Place {
    std::uint32_t memory = kUntracked;
    ValueId same = {};          // The first old value at this place, which leads the way.
    ValueId parent = {};        // Old: what it is a view of. Invalid: of the root, by geometry.
    NodeId view = {};           // The node that made the view.
    ValueId made = {};          // New.
    std::uint32_t version = 0;  // Of the memory, when `made` held its elements.
  };

  // functionalizer_memory.cpp: which memory a value is in.
  void find_written();
  void place_inputs();
  void place_group(std::vector<ValueId> group);
  void place_result(ValueId value, NodeId node);
  std::uint32_t new_memory(ValueId root);
  bool place_at(ValueId value, std::uint32_t memory, ValueId parent, NodeId view);

  // functionalizer_access.cpp: reading and writing places.
  [[nodiscard]] Place& place(ValueId old) { return places_[old.index()]; }
  ValueId read(ValueId old);
  ValueId materialize_as(ValueId old);
  ValueId read_exactly(ValueId old);
  void write(ValueId old, ValueId value);
  ValueId root_value(std::uint32_t memory, const TensorMeta& wanted);
  ValueId base_of_kind(ValueId view);
  std::pair<ValueId, Expr> addressed(ValueId view, ValueId base);
  ValueId flat_value(Memory& memory);
  ViewStep step_of(const Place& place);
  void set_made(ValueId old, ValueId made);

  // functionalize.cpp: the nodes.
  void visit(NodeId id);
  bool is_stale_view(const Node& node);
  bool resizes_empty_storage(const Node& node);
  void allocate_zeros(ValueId value);
  void visit_in_place_view(NodeId id);
  void visit_mutation(NodeId id);
  ValueId overwritten(NodeId id, ValueId target);
  ValueId copied(const Node& node, ValueId target);
  ValueId cast(ValueId value, DType dtype);
  Argument read_argument(const Argument& argument);
  void add_outputs();
  ValueId returned_value(ValueId old);

  const Graph& source_;
  Rewriter rewriter_;
  ViewWriter writer_;
  std::vector<std::uint32_t> memory_ids_;
  std::vector<bool> written_;  // By memory id.
  std::vector<Place> places_;  // By old value.
  std::vector<Memory> memories_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> memories_of_;  // By memory id.
  std::unordered_map<StorageId, std::uint32_t>
      owners_;  // New storages, by the memory id they were made for.
};

}  // namespace kiln::ir

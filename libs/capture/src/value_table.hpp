// Which value of the graph a tensor is.
//
// A tensor comes back under another TensorImpl (a saved variable unpacked, what a factory of the
// C++ frontend returns), so it is known by its storage, geometry, dtype and conj/neg bits.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// Where the elements of `tensor` are, to tell it from others; null if it has none.
const c10::StorageImpl* memory_of(const at::Tensor& tensor);

class ValueTable {
 public:
  /// `tensor` is `value` from now on.
  void set(const at::Tensor& tensor, ir::ValueId value);
  [[nodiscard]] std::optional<ir::ValueId> find(const at::Tensor& tensor) const;
  /// Whatever lies in `tensor`'s storage from now on has nothing to do with what lay there before.
  void forget(const at::Tensor& tensor);

  /// The graph's id for `tensor`'s storage, taken from `graph` if it is new; invalid for tensors
  /// without one.
  ir::StorageId storage_of(const at::Tensor& tensor, ir::Graph& graph);
  /// Whether any tensor on `tensor`'s storage was seen.
  [[nodiscard]] bool knows_storage_of(const at::Tensor& tensor) const;
  /// Some value of `tensor`'s dtype on its storage.
  [[nodiscard]] std::optional<ir::ValueId> any_on_storage_of(const at::Tensor& tensor) const;

 private:
  struct Entry {
    std::int64_t offset;
    std::vector<std::int64_t> sizes, strides;
    c10::ScalarType dtype;
    bool conjugate, negative;
    ir::ValueId value;

    [[nodiscard]] bool matches(const at::Tensor& tensor) const;
  };
  struct StorageEntry {
    // Keeps the address from being reused while the trace runs, but not the memory alive.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    ir::StorageId id;
    std::vector<Entry> values;
  };
  struct Keepsake {
    at::Tensor tensor;  // Without a storage its address is all that tells it apart: keep it.
    ir::ValueId value;
  };

  StorageEntry* entry_of(const at::Tensor& tensor);

  std::unordered_map<const c10::StorageImpl*, StorageEntry> storages_;
  std::unordered_map<const c10::TensorImpl*, Keepsake> without_storage_;
};

}  // namespace kiln::capture

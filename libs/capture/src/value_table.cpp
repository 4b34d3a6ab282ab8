#include "value_table.hpp"

#include <algorithm>

namespace kiln::capture {

const c10::StorageImpl* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

bool ValueTable::Entry::matches(const at::Tensor& tensor) const {
  return offset == tensor.storage_offset() && dtype == tensor.scalar_type() &&
         conjugate == tensor.is_conj() && negative == tensor.is_neg() && tensor.sizes() == sizes &&
         tensor.strides() == strides;
}

ValueTable::StorageEntry* ValueTable::entry_of(const at::Tensor& tensor) {
  c10::StorageImpl* address = tensor.storage().unsafeGetStorageImpl();
  const auto found = storages_.find(address);
  if (found != storages_.end()) {
    return &found->second;
  }
  c10::weak_intrusive_ptr<c10::StorageImpl> weak(
      c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(address));
  return &storages_.emplace(address, StorageEntry{std::move(weak), {}, {}}).first->second;
}

void ValueTable::set(const at::Tensor& tensor, ir::ValueId value) {
  if (memory_of(tensor) == nullptr) {
    without_storage_[tensor.unsafeGetTensorImpl()] = {tensor, value};
    return;
  }
  StorageEntry& storage = *entry_of(tensor);
  for (Entry& entry : storage.values) {
    if (entry.matches(tensor)) {
      entry.value = value;
      return;
    }
  }
  storage.values.push_back({tensor.storage_offset(),
                            tensor.sizes().vec(),
                            tensor.strides().vec(),
                            tensor.scalar_type(),
                            tensor.is_conj(),
                            tensor.is_neg(),
                            value});
}

std::optional<ir::ValueId> ValueTable::find(const at::Tensor& tensor) const {
  const c10::StorageImpl* address = memory_of(tensor);
  if (address == nullptr) {
    const auto found = without_storage_.find(tensor.unsafeGetTensorImpl());
    return found == without_storage_.end() ? std::nullopt : std::optional(found->second.value);
  }
  const auto storage = storages_.find(address);
  if (storage == storages_.end()) {
    return std::nullopt;
  }
  const auto& values = storage->second.values;
  const auto entry = std::find_if(
      values.rbegin(), values.rend(), [&](const Entry& e) { return e.matches(tensor); });
  return entry == values.rend() ? std::nullopt : std::optional(entry->value);
}

void ValueTable::forget(const at::Tensor& tensor) {
  if (memory_of(tensor) == nullptr) {
    without_storage_.erase(tensor.unsafeGetTensorImpl());
    return;
  }
  StorageEntry& entry = *entry_of(tensor);
  entry.id = {};
  entry.values.clear();
}

ir::StorageId ValueTable::storage_of(const at::Tensor& tensor, ir::Graph& graph) {
  if (memory_of(tensor) == nullptr) {
    return {};
  }
  StorageEntry& entry = *entry_of(tensor);
  if (!entry.id.valid()) {
    entry.id = graph.new_storage();
  }
  return entry.id;
}

bool ValueTable::knows_storage_of(const at::Tensor& tensor) const {
  return storages_.contains(memory_of(tensor));
}

std::optional<ir::ValueId> ValueTable::any_on_storage_of(const at::Tensor& tensor) const {
  const auto storage = storages_.find(memory_of(tensor));
  if (storage == storages_.end()) {
    return std::nullopt;
  }
  for (const Entry& entry : storage->second.values) {
    if (entry.dtype == tensor.scalar_type() && !entry.conjugate && !entry.negative) {
      return entry.value;
    }
  }
  return std::nullopt;
}

}  // namespace kiln::capture

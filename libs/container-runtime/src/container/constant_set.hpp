// One set of values for a model's constants.
//
// A set that runs can see is never written to: an update makes a copy (which shares the tensors),
// changes that, and the container puts it in the old one's place. So a run that took a set at its
// start has the same constants to its end.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "container/shim.hpp"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// Values, or none yet, for every constant of a model.
class ConstantSet {
 public:
  /// Has no values; tensors will be made on device `device_index` of their type.
  ConstantSet(const KilnModel& model, std::int32_t device_index);

  /// Shares the tensors of `other`.
  ConstantSet(const ConstantSet& other);
  ConstantSet& operator=(const ConstantSet&) = delete;
  ~ConstantSet();

  /// Wraps the constants that lie in `weights` (null: none does); copies those that runs will write
  /// to. Those of another device than the CPU lie in `on_device` instead. Both must outlive the set
  /// and its copies.
  void take_embedded(unsigned char* weights, AtenTensorHandle on_device);

  /// Copies every constant that `blob`, laid out as the embedded weights, holds.
  void copy_blob(const unsigned char* blob);

  void put(std::size_t index, Tensor value, bool user_managed = false);

  /// Copies `value` into memory of the set's own, laid out as compiled.
  void put_copy(std::size_t index, AtenTensorHandle value);

  [[nodiscard]] bool is_user_managed(std::size_t index) const { return user_managed_[index]; }

  /// Whether every constant has a value, folded ones too.
  [[nodiscard]] bool is_complete() const;

  /// The first constant without a value, folded ones aside.
  [[nodiscard]] std::optional<std::size_t> first_missing() const;

  [[nodiscard]] AtenTensorHandle handle(std::size_t index) const { return handles_[index]; }
  [[nodiscard]] AtenTensorHandle const* handles() const { return handles_.data(); }
  [[nodiscard]] void* const* data() const { return data_.data(); }

  // The rest is the container's bookkeeping, guarded by its mutex.

  bool is_ready = false;    // complete and folded: runs may use it
  bool is_awaited = false;  // someone waits until no run uses it
  int users = 0;            // runs in flight

 private:
  [[nodiscard]] Tensor wrap(const KilnConstant& constant,
                            unsigned char* data,
                            std::int32_t device_type) const;
  [[nodiscard]] std::int32_t index_on(std::int32_t device_type) const;

  const KilnModel& model_;
  std::int32_t device_index_;
  std::vector<AtenTensorHandle> handles_;  // null: no value
  std::vector<void*> data_;
  std::vector<bool> user_managed_;
};

/// True for a constant that `fold` computes.
[[nodiscard]] inline bool is_folded(const KilnConstant& constant) {
  return constant.kind == KILN_CONSTANT_FOLDED;
}

/// True if `run` writes to the constant.
[[nodiscard]] bool is_mutated(const KilnModel& model, const KilnConstant& constant);

}  // namespace kiln::container

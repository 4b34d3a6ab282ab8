// Which elements of fresh allocations have been written: a shadow of the memory of a trace.
//
// An operator that allocates with `at::empty` and fills the memory through raw pointers leaves
// nothing behind in the graph but the allocation. Compiled code would then read uninitialised
// memory. So the recorder asks here before an operator reads a tensor.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator_facts.hpp"

namespace kiln::capture {

/// Memory that an operator allocated and did not initialise.
struct Allocation {
  std::string target;      ///< The operator, "aten.empty.memory_format".
  std::string source;      ///< Where in the program it was called, if that is known.
  std::uint64_t time = 0;  ///< When: composite operators that were running then opened before it.
  /// Called by the C++ frontend for `torch::tensor(values)`, which copies the values through a raw
  /// pointer: they are part of the program, as numbers in its text are.
  bool holds_literals = false;
};

/// How a call treats the elements that one of its arguments had before the call.
enum class ElementAccess {
  kNone,       ///< Only sizes, strides and the type matter: views, `empty_like`.
  kOverwrite,  ///< Written without being read: `copy_`, `fill_`, `out=`.
  kRead,
};

/// What a call of the operator does with the elements of its argument at `position`.
[[nodiscard]] ElementAccess element_access(const OperatorFacts& facts, std::uint32_t position);

/// Whether the operator returns memory that it has not initialised.
[[nodiscard]] bool allocates_uninitialized(const OperatorFacts& facts);

/// Follows the writes to each fresh allocation, byte by byte.
class InitializationTracker {
 public:
  /// `tensor` is `allocation`, of which nothing is written yet.
  void note_allocation(const at::Tensor& tensor, Allocation allocation);
  /// The storage of `tensor` had `bytes` before and has more now; those are `allocation`.
  void note_growth(const at::Tensor& tensor, std::size_t bytes, Allocation allocation);
  /// Every element of `tensor` is written.
  void note_write(const at::Tensor& tensor);

  /// The allocation that `tensor` lies in, if some element of it was never written; else null.
  [[nodiscard]] const Allocation* find_uninitialized(const at::Tensor& tensor) const;

 private:
  struct Shadow {
    Allocation allocation;
    std::vector<bool> written = {};  // By byte; empty as long as there was no write.
    std::size_t written_bytes = 0;
  };

  std::unordered_map<const c10::StorageImpl*, Shadow> shadows_;
};

}  // namespace kiln::capture

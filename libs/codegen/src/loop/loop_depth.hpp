// Which loop of a nest a value changes with.

#pragma once

#include <cstdint>
#include <unordered_map>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// The innermost loop that a value changes with.
enum class LoopDepth : std::uint8_t {
  kInvariant,  ///< None: it is the same everywhere.
  kOuter,      ///< It is the same along a row.
  kMiddle,     ///< It is the same along the inner loop.
  kInner,      ///< It differs from element to element.
};

/// The depths of the values of one nest.
class LoopDepths {
 public:
  LoopDepths(const ScalarPool& pool, const LoopNest& nest) : pool_(pool), nest_(nest) {}
  [[nodiscard]] LoopDepth of(ScalarId scalar);
  [[nodiscard]] LoopDepth of(const Index& index);

 private:
  const ScalarPool& pool_;
  const LoopNest& nest_;
  std::unordered_map<ScalarId, LoopDepth> known_;
};

}  // namespace kiln::codegen

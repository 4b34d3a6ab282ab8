// Which values a kernel keeps for a row between its phases, rather than computing them again.

#pragma once

#include <unordered_map>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// By level: 0 is the same everywhere, then what changes with the outer, the middle and the inner
/// loop.
class Levels {
 public:
  Levels(const ScalarPool& pool, const LoopKernel& kernel) : pool_(pool), kernel_(kernel) {}
  [[nodiscard]] int of(ScalarId scalar);
  [[nodiscard]] int of(const Index& index);

 private:
  const ScalarPool& pool_;
  const LoopKernel& kernel_;
  std::unordered_map<ScalarId, int> known_;
};

/// A value that is written in one phase and read back in later ones.
struct RowTemporary {
  ScalarId value;
  int phase = 0;   ///< Where it is computed.
  int store = -1;  ///< The store that writes it to memory anyway; -1: it needs scratch of its own.
};

[[nodiscard]] std::vector<RowTemporary> choose_row_temporaries(const ScalarPool& pool,
                                                               const LoopProgram& program,
                                                               const LoopKernel& kernel,
                                                               Levels& levels);

}  // namespace kiln::codegen

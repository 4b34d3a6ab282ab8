// Integers among the user's inputs of an archive.
//
// A trace reads sizes of tensors as it finds them, and a symbol flows through none of them. So
// while a program is traced, an integer is the length of a vector that nothing else looks at, and
// varies as any size does. Afterwards it is an integer again, which a call passes as a tensor of
// type int64 without dimensions, as AOTInductor's packages take it.

#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>

#include "archived_program.hpp"

namespace kiln::exporter {

/// Whether a vector can stand in for an integer that is `value` in the sample.
[[nodiscard]] bool can_be_length(std::int64_t value);

/// What stands in for `integer` in the sample.
[[nodiscard]] at::Tensor stand_in_for(const SymbolicInteger& integer);

/// What the archive's graph takes where the user passes `input` at `position`.
[[nodiscard]] c10::IValue passed_value(const ArchivedProgram& archived,
                                       std::uint32_t position,
                                       const at::Tensor& input);

/// Makes integers again of the inputs of `program`, the trace of `archived`, that stand in for
/// some, and of their samples.
void restore_integers(const ArchivedProgram& archived, ExportedProgram* program);

}  // namespace kiln::exporter

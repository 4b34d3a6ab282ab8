// What the machine code of CUDA kernels says of them.

#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kiln::codegen::testing {

/// For each kernel of `cubin`, which is an ELF file, the bytes of local memory on its stack: arrays
/// that are not in registers, and registers that were spilled.
std::map<std::string, std::uint32_t> stack_frames(const std::string& cubin);

/// Throws if a kernel of rows, which `source` has become, uses local memory.
void check_rows_are_in_registers(const std::string& source, const std::string& cubin);

}  // namespace kiln::codegen::testing

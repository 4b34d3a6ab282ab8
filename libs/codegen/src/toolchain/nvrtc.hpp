// CUDA C++ to machine code by NVRTC, which is opened when it is first needed.

#pragma once

#include <string>

namespace kiln::codegen {

/// Compiles `source`, which includes nothing, for `architecture` and returns the cubin ("sm_90") or
/// the PTX ("compute_90"). NVRTC is the library `nvrtc`, or `find_nvrtc()` if that is empty. Throws
/// `Error` with `kUnsupported` if there is none, or none that knows the architecture, and with
/// `kIo` and NVRTC's own words if the source does not compile.
[[nodiscard]] std::string compile_cuda(const std::string& source,
                                       const std::string& architecture,
                                       const std::string& nvrtc = {});

}  // namespace kiln::codegen

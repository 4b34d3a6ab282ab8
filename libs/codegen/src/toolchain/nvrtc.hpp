// CUDA C++ to machine code by NVRTC, which is opened when it is first needed.

#pragma once

#include <string>

namespace kiln::codegen {

/// Compiles `source`, which includes nothing, for `architecture` ("sm_90") and returns the cubin.
/// NVRTC is the library `nvrtc`, or, if that is empty, the one that the environment variable
/// KILN_NVRTC names, or what the dynamic linker finds. Throws `Error` with `kUnsupported` if there
/// is none, or none that knows the architecture, and with `kIo` and NVRTC's own words if the source
/// does not compile.
[[nodiscard]] std::string compile_cuda(const std::string& source,
                                       const std::string& architecture,
                                       const std::string& nvrtc = {});

}  // namespace kiln::codegen

# cmake -DHEADERS=<file>,… -DKERNELS=<file>,… -DCUDA_HEADERS=<file>,…
#       -DOUTPUT=<file.cpp> -P embed_kernels.cmake
#
# Writes a source file that holds the CPU's kernel headers and hand-written kernels, and CUDA's kernel
# headers, as text.

# embed(<variable> <files> [NAMED]): the files as entries of an array.
function (embed variable files)
  set(entries "")
  string(REPLACE "," ";" files "${files}")
  foreach (path IN LISTS files)
    file(READ "${path}" text)
    set(entry "R\"KERNEL(${text})KERNEL\"")
    if ("${ARGN}" STREQUAL NAMED)
      cmake_path(GET path STEM name)
      set(entry "{\"${name}\", ${entry}}")
    endif ()
    string(APPEND entries "    ${entry},\n")
  endforeach ()
  set(${variable} "${entries}" PARENT_SCOPE)
endfunction ()

embed(headers "${HEADERS}" NAMED)
embed(kernels "${KERNELS}" NAMED)
embed(cuda_headers "${CUDA_HEADERS}")
file(WRITE "${OUTPUT}" "#include \"backend/cpu/kernels/kernel_headers.hpp\"
#include \"backend/cuda/emit/prelude.hpp\"

namespace kiln::codegen {

std::span<const KernelHeader> kernel_headers() {
  static constexpr KernelHeader kHeaders[] = {
${headers}  };
  return kHeaders;
}

std::span<const KernelHeader> hand_written_kernels() {
  static constexpr KernelHeader kKernels[] = {
${kernels}  };
  return kKernels;
}

namespace cuda {

std::span<const std::string_view> kernel_headers() {
  static constexpr std::string_view kHeaders[] = {
${cuda_headers}  };
  return kHeaders;
}

}  // namespace cuda
}  // namespace kiln::codegen
")

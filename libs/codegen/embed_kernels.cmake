# cmake -DHEADERS=<file>,… -DKERNELS=<file>,… -DOUTPUT=<file.cpp> -P embed_kernels.cmake
#
# Writes a source file that holds the CPU's kernel headers and hand-written kernels as text.

function (embed variable files)
  set(entries "")
  string(REPLACE "," ";" files "${files}")
  foreach (path IN LISTS files)
    file(READ "${path}" text)
    cmake_path(GET path STEM name)
    string(APPEND entries "    {\"${name}\", R\"KERNEL(${text})KERNEL\"},\n")
  endforeach ()
  set(${variable} "${entries}" PARENT_SCOPE)
endfunction ()

embed(headers "${HEADERS}")
embed(kernels "${KERNELS}")
file(WRITE "${OUTPUT}" "#include \"backend/cpu/kernel_headers.hpp\"

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

}  // namespace kiln::codegen
")

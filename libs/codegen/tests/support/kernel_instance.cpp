// One hand-written kernel; CMake defines which, and its macros.

#include KILN_KERNEL_HEADER

# What every CMakeLists.txt of the workspace includes: the version, the third-party names, kiln_library() and kiln_test().
#
# The root includes it for the whole workspace; a library that is configured alone includes it for itself.

include_guard(GLOBAL)

set(KILN_VERSION 0.1.0)
set(KILN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(KILN_ROOT_DIR "${CMAKE_CURRENT_LIST_DIR}/..")

option(KILN_BUILD_TESTS "Build the test suites" ${PROJECT_IS_TOP_LEVEL})
option(KILN_BUILD_BENCHMARKS "Build the Google Benchmark suites" OFF)
set(KILN_SANITIZE "" CACHE STRING "Sanitizers for everything that is built, as -fsanitize= takes them")

find_program(KILN_CCACHE ccache)
mark_as_advanced(KILN_CCACHE)
if (KILN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KILN_CCACHE}" CACHE STRING "" FORCE)
endif ()

include("${KILN_CMAKE_DIR}/KilnDependencies.cmake")
include("${KILN_CMAKE_DIR}/KilnLibrary.cmake")
if (KILN_BUILD_TESTS)
  enable_testing()
  include("${KILN_CMAKE_DIR}/KilnTest.cmake")
endif ()

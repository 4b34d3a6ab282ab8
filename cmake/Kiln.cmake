# What every CMakeLists.txt of the workspace includes: the version, the third-party names,
# kiln_library(), kiln_test() and kiln_benchmark().
#
# The root includes it for the whole workspace; a library that is configured alone includes it for
# itself. The include guard ignores the second inclusion.

include_guard(GLOBAL)

set(KILN_VERSION 0.1.0)
set(KILN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
cmake_path(GET KILN_CMAKE_DIR PARENT_PATH KILN_ROOT_DIR)

option(KILN_BUILD_TESTS "Build the test suites" ${PROJECT_IS_TOP_LEVEL})
option(KILN_BUILD_BENCHMARKS "Build the Google Benchmark suites" OFF)
set(KILN_SANITIZE "" CACHE STRING "Sanitizers for everything that is built, as -fsanitize= takes them")

# libtorch's package file compiles a C program when it looks for threads.
enable_language(C)

# The settings travel with the launcher, so that a build started without ./dev hits the same cache.
# Precompiled headers need the two kinds of sloppiness; the base directory lets clones share objects.
# CCACHE_DEPEND compares the bytes of headers. Without it ccache compares preprocessed text, which has no
# comments, and would reuse a precompiled header after a comment changed; g++, which compares bytes for
# #pragma once, would then read the header again.
find_program(KILN_CCACHE ccache)
mark_as_advanced(KILN_CCACHE)
if (KILN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${KILN_ROOT_DIR}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros
    "${KILN_CCACHE}")
endif ()

list(APPEND CMAKE_MODULE_PATH "${KILN_CMAKE_DIR}")
include("${KILN_CMAKE_DIR}/KilnDependencies.cmake")
include("${KILN_CMAKE_DIR}/KilnLibrary.cmake")
include("${KILN_CMAKE_DIR}/KilnSourceDigest.cmake")
include("${KILN_CMAKE_DIR}/KilnCompileTime.cmake")
if (KILN_BUILD_TESTS)
  enable_testing()
  include("${KILN_CMAKE_DIR}/KilnTest.cmake")
endif ()
if (KILN_BUILD_BENCHMARKS)
  include("${KILN_CMAKE_DIR}/KilnBenchmark.cmake")
endif ()

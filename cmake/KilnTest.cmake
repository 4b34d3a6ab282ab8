# kiln_test(LIBRARY <name> SOURCES <file>... [DEPENDS <target>...] [LABELS <label>...] [TORCH]
#           [FOLDER <folder>] [ALONE <file>...])
#
# Builds kiln-<name>-tests from <folder>/<file> (tests/ by default) and registers one CTest entry for
# each file. There is not one for each TEST_CASE, because a process linked to libtorch takes half a
# second to start.
# Several files are compiled together, so names in unnamed namespaces must be unique within a suite; those
# that are listed behind ALONE (also) are compiled by themselves.
# TORCH precompiles <torch/torch.h>, which costs half a minute in every file otherwise; all suites
# share one precompiled header, so their compile options must not differ.

# Catch2 2.13 (Debian 12) and 3.x (vcpkg, Ubuntu 24.04) ship the same two targets; their headers
# differ, which <kiln/testing/catch2.hpp> hides. No version argument: Catch2's version file only
# accepts its own major.
find_package(Catch2 REQUIRED)
if (Catch2_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "kiln's tests need Catch2 2.13 or newer; found ${Catch2_VERSION} in ${Catch2_DIR}")
endif ()

add_library(kiln-testing INTERFACE)
add_library(kiln::testing ALIAS kiln-testing)
target_include_directories(kiln-testing INTERFACE "${KILN_ROOT_DIR}/tests/support")
target_link_libraries(kiln-testing INTERFACE Catch2::Catch2WithMain)

function (kiln_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TORCH" "LIBRARY;FOLDER" "SOURCES;DEPENDS;LABELS;ALONE")
  set(target "kiln-${arg_LIBRARY}-tests")
  if (NOT arg_FOLDER)
    set(arg_FOLDER tests)
  endif ()
  list(TRANSFORM arg_SOURCES PREPEND "${arg_FOLDER}/" OUTPUT_VARIABLE files)

  add_executable(${target} ${files})
  if (TARGET kiln::${arg_LIBRARY})
    target_link_libraries(${target} PRIVATE kiln::${arg_LIBRARY})
  endif ()
  target_link_libraries(${target} PRIVATE kiln::testing ${arg_DEPENDS})
  _kiln_test_options(${target})
  kiln_compile_together(${target} 4)
  list(TRANSFORM arg_ALONE PREPEND "${arg_FOLDER}/")
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if (arg_TORCH)
    _kiln_precompile_torch()
    target_precompile_headers(${target} REUSE_FROM kiln-testing-torch)
  endif ()

  set(timeout 600)
  if (KILN_SANITIZE)
    set(timeout 3000)  # Sanitized code takes several times as long.
  endif ()
  foreach (source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    set(test "${arg_LIBRARY}.${stem}")
    add_test(NAME ${test} COMMAND ${target} --filenames-as-tags "[#${stem}]")
    set_tests_properties(${test} PROPERTIES
      LABELS "unit;${arg_LIBRARY};${arg_LABELS}"
      TIMEOUT ${timeout}
      ENVIRONMENT "KILN_VERIFY_PASSES=1"  # Every pass verifies its result, as in debug builds.
      FAIL_REGULAR_EXPRESSION "No tests ran")  # 2.13 exits with 0 then
  endforeach ()
endfunction ()

function (_kiln_test_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  # The libraries are optimised, the tests are not: that halves the time to compile one.
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<CONFIG:Release>:-O0>)
  _kiln_sanitize(${target})
endfunction ()

# Created on first use: a workspace without torch has no suite that needs it.
function (_kiln_precompile_torch)
  if (TARGET kiln-testing-torch)
    return ()
  endif ()
  kiln_find_packages(Torch)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kiln_testing_torch.cpp"
    CONTENT "// Only here to carry the precompiled header.\n")
  add_library(kiln-testing-torch OBJECT "${PROJECT_BINARY_DIR}/kiln_testing_torch.cpp")
  target_link_libraries(kiln-testing-torch PRIVATE torch)
  _kiln_test_options(kiln-testing-torch)
  target_precompile_headers(kiln-testing-torch PRIVATE <torch/torch.h>)
endfunction ()

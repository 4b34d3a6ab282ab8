# kiln_test_model(<name> <source> [ARCHIVE <target>] [DEFINITIONS <definition>...]): builds
# tests/models/<source>.cpp into a model library, as the compiler would. The libraries are in models/
# of the build directory.
function (kiln_test_model name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ARCHIVE" "DEFINITIONS")
  if (NOT arg_ARCHIVE)
    set(arg_ARCHIVE kiln-container)
  endif ()
  set(target "kiln-test-model-${name}")
  add_library(${target} MODULE "tests/models/${source}.cpp")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE ${KILN_WARNINGS})
  _kiln_sanitize(${target})
  set_target_properties(${target} PROPERTIES
    PREFIX ""
    OUTPUT_NAME ${name}
    CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/models")
  target_include_directories(${target} PRIVATE include)
  target_include_directories(${target} SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE
    -Wl,--whole-archive ${arg_ARCHIVE} -Wl,--no-whole-archive torch_cpu)
  add_dependencies(${target} ${arg_ARCHIVE})
endfunction ()

kiln_test_model(affine affine)
kiln_test_model(affine_without_weights affine DEFINITIONS KILN_TEST_WEIGHTS_BEHIND)
kiln_test_model(affine_elsewhere affine
  DEFINITIONS KILN_TEST_CPU_FEATURES="asimd_of_tomorrow")
kiln_test_model(counter counter)

# A host that is not C++: libtorch's own package needs a C compiler, so there is one.
enable_language(C)
add_executable(kiln-test-c-host tests/c_host.c)
target_compile_features(kiln-test-c-host PRIVATE c_std_11)
target_compile_options(kiln-test-c-host PRIVATE -Wall -Wextra -Wpedantic)
target_include_directories(kiln-test-c-host PRIVATE include)
target_link_libraries(kiln-test-c-host PRIVATE torch_cpu ${CMAKE_DL_LIBS})
_kiln_sanitize(kiln-test-c-host)

# A library that is no model.
add_library(kiln-test-model-empty MODULE tests/models/empty.cpp)
set_target_properties(kiln-test-model-empty PROPERTIES
  PREFIX ""
  OUTPUT_NAME empty
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/models")

# Keeps builds short (docs/testing.md, "How long a build takes").
#
# kiln_precompile_torch(<target>)           # uses a precompiled header of libtorch and the graph
# kiln_compile_together(<target> <count>)   # compiles <count> sources as one translation unit
#
# A precompiled header is compiled once instead of in each file. Sources still include what they use:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF must build.

function (kiln_precompile_torch target)
  # The targets that use it must have the same options.
  if (NOT TARGET kiln-precompiled-torch)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kiln_precompiled_torch.cpp"
      CONTENT "// Only here to carry the precompiled header.\n")
    add_library(kiln-precompiled-torch OBJECT "${PROJECT_BINARY_DIR}/kiln_precompiled_torch.cpp")
    target_link_libraries(kiln-precompiled-torch PRIVATE kiln::ir torch)
    target_compile_features(kiln-precompiled-torch PRIVATE cxx_std_20)
    target_compile_options(kiln-precompiled-torch PRIVATE ${KILN_WARNINGS})
    _kiln_sanitize(kiln-precompiled-torch)
    set_target_properties(kiln-precompiled-torch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_precompile_headers(kiln-precompiled-torch PRIVATE
      <algorithm> <array> <functional> <map> <memory> <optional> <set> <span> <sstream> <string> <string_view>
      <unordered_map> <unordered_set> <utility> <variant> <vector>
      <ATen/Functions.h> <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h>
      <ATen/core/ivalue.h> <c10/core/GradMode.h> <kiln/ir/graph.hpp>)
    _kiln_allow_precompiled(kiln-precompiled-torch)
  endif ()
  target_precompile_headers(${target} REUSE_FROM kiln-precompiled-torch)
  _kiln_allow_precompiled(${target})
endfunction ()

# g++ does not know which parts of a precompiled header are system headers, and shows false warnings
# that it otherwise hides: std::string of a literal.
function (_kiln_allow_precompiled target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
endfunction ()

# Templates from headers (libtorch, CLI11, JSON, the standard library) are instantiated again in each
# file, even with a precompiled header. Sources that are compiled together avoid that. Names in unnamed
# namespaces must therefore be unique within a library.
function (kiln_compile_together target count)
  if (DEFINED CMAKE_UNITY_BUILD)  # Set for all targets.
    return ()
  endif ()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
  # g++ regards the included sources as headers, in which it warns of types of unnamed namespaces.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction ()

# What keeps a build from nothing short (docs/testing.md, "How long a build takes").
#
# kiln_precompile_torch(<target>)           # libtorch and the graph, precompiled once for all that ask
# kiln_compile_together(<target> <count>)   # so many sources are one for the compiler
#
# A precompiled header costs what it holds, once, and saves that in each file. Sources still include
# what they use: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF must build.

function (kiln_precompile_torch target)
  # Its options must not differ from those of who uses it.
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

# g++ forgets what of a precompiled header is the system's, and shows false warnings from there that it
# hides otherwise: std::string of a literal.
function (_kiln_allow_precompiled target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
endfunction ()

# What headers instantiate (libtorch's, CLI11's, JSON's, the standard library's) is compiled again in
# each file, and that no precompiled header saves. Names in unnamed namespaces must then differ within a
# library.
function (kiln_compile_together target count)
  if (DEFINED CMAKE_UNITY_BUILD)  # Somebody decided for all targets.
    return ()
  endif ()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
  # g++ takes what one file includes for a header, where a type of an unnamed namespace were a fault.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction ()

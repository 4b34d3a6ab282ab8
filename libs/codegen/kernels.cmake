# What src/backend/cpu/kernels and src/backend/cuda/kernels hold, and how codegen gets it as text.

# Each after those it includes.
set(kernel_headers
  vector
  memory
  math_f64
  sin_cos_f64
  pow_f64
  math_f32
  sin_cos_f32
  pow_f32
  tile
  gemm_params
  convolution_params
  attention_params
  convolution)
set(hand_written_kernels
  attention
  packed_convolution
  packed_gemm
  winograd_convolution)
set(cuda_kernel_headers
  elements
  arithmetic
  combine
  block
  atomic
  vectors)

# kiln_embed_kernels(<target>): gives <target> a source file with all of them as text.
function (kiln_embed_kernels target)
  set(backends "${CMAKE_CURRENT_SOURCE_DIR}/src/backend")
  set(folders cpu cpu cuda)
  set(lists kernel_headers hand_written_kernels cuda_kernel_headers)
  foreach (folder list IN ZIP_LISTS folders lists)
    list(TRANSFORM ${list} REPLACE "(.+)" "${backends}/${folder}/kernels/\\1.hpp")
    list(JOIN ${list} "," ${list}_files)
  endforeach ()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded_kernels.cpp")
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/embed_kernels.cmake")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND
      "${CMAKE_COMMAND}" "-DHEADERS=${kernel_headers_files}" "-DKERNELS=${hand_written_kernels_files}"
      "-DCUDA_HEADERS=${cuda_kernel_headers_files}" "-DOUTPUT=${output}" -P "${script}"
    DEPENDS ${kernel_headers} ${hand_written_kernels} ${cuda_kernel_headers} "${script}"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction ()

# kiln_add_kernel_instances(<target>): adds the hand-written kernels to a test as ordinary code, for
# vectors of 4 and of 16 floats (tests/support/kernel_instances.hpp), and the vectors' own test.
function (kiln_add_kernel_instances target)
  set(all_lanes 4 16)
  set(all_tile_rows 8 14)
  set(all_tile_pixels 8 12)
  foreach (lanes tile_rows tile_pixels IN ZIP_LISTS all_lanes all_tile_rows all_tile_pixels)
    foreach (kernel IN LISTS hand_written_kernels)
      set(instance "${target}-${kernel}-${lanes}")
      math(EXPR width "2 * ${lanes}")
      add_library(${instance} OBJECT tests/support/kernel_instance.cpp)
      target_include_directories(${instance} PRIVATE src)
      target_compile_features(${instance} PRIVATE cxx_std_17)
      target_compile_options(${instance} PRIVATE -O2 -fopenmp ${KILN_WARNINGS} -Wno-psabi -Wno-vla
        -Wno-unused-function)
      target_compile_definitions(${instance} PRIVATE
        KILN_KERNEL=${kernel}_${lanes}
        "KILN_KERNEL_HEADER=\"backend/cpu/kernels/${kernel}.hpp\""
        KILN_LANES=${lanes}
        KILN_PANEL_WIDTH=${width}
        KILN_MAX_TILE_ROWS=${tile_rows}
        KILN_TILE_ROWS=${tile_rows}
        KILN_TILE_PIXELS=${tile_pixels})
      _kiln_sanitize(${instance})
      target_link_libraries(${target} PRIVATE ${instance})
    endforeach ()
  endforeach ()
  target_link_options(${target} PRIVATE -fopenmp)

  # Among the sources of the suite it has the default of 4 lanes.
  set(instance "${target}-vectors-16")
  add_library(${instance} OBJECT tests/vectors_test.cpp)
  target_include_directories(${instance} PRIVATE src)
  target_compile_definitions(${instance} PRIVATE KILN_LANES=16)
  target_link_libraries(${instance} PRIVATE kiln::testing)
  _kiln_test_options(${instance})
  target_link_libraries(${target} PRIVATE ${instance})
endfunction ()

# The model of affine.cpp for a GPU: its kernels, compiled to machine code for Hopper and to PTX for
# others, lie in the library. What needs a GPU to run has the label gpu.
set(fatbin "${CMAKE_CURRENT_BINARY_DIR}/models/affine.fatbin")
add_custom_command(
  OUTPUT "${fatbin}"
  COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" -fatbin -o "${fatbin}"
    -gencode arch=compute_75,code=compute_75
    -gencode arch=compute_90,code=sm_90
    "${CMAKE_CURRENT_SOURCE_DIR}/tests/models/affine.cu"
  DEPENDS tests/models/affine.cu
  VERBATIM)
kiln_test_model(affine_cuda affine_cuda
  ARCHIVE kiln-container-cuda
  DEFINITIONS KILN_TEST_FATBIN="${fatbin}")
set_source_files_properties(tests/models/affine_cuda.cpp PROPERTIES OBJECT_DEPENDS "${fatbin}")
add_dependencies(kiln-container-runtime-tests kiln-test-model-affine_cuda)
# Also where there is a GPU, the refusal is tested without.
set_property(TEST container-runtime.cuda_test APPEND PROPERTY
  ENVIRONMENT "CUDA_VISIBLE_DEVICES=-1")

# What limits libtorch's memory of a GPU asks its allocator, which is a library of its own.
if (TARGET kiln-cuda-graphs)
  set(faults cuda_faults_gpu_test.cpp)
endif ()
kiln_test(
  LIBRARY container-runtime-cuda
  SOURCES cuda_gpu_test.cpp ${faults} cuda_graphs_gpu_test.cpp
  DEPENDS kiln::container-runtime
  LABELS gpu)
if (faults)
  target_link_libraries(kiln-container-runtime-cuda-tests PRIVATE "${KILN_C10_CUDA}" CUDA::cudart)
endif ()
target_compile_definitions(kiln-container-runtime-cuda-tests PRIVATE
  KILN_TEST_MODELS="${CMAKE_CURRENT_BINARY_DIR}/models"
  KILN_TEST_INTEROP="${CMAKE_CURRENT_SOURCE_DIR}/tests/interop")
add_dependencies(kiln-container-runtime-cuda-tests kiln-test-model-affine_cuda)

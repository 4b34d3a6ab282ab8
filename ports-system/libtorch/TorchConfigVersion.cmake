# Without a libtorch any version will do: TorchConfig.cmake then says what is wrong.
include("${CMAKE_CURRENT_LIST_DIR}/torch-prefix.cmake")
if(_torch_prefix)
    include("${_torch_prefix}/share/cmake/Torch/TorchConfigVersion.cmake")
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()

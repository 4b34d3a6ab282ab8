# Sets _torch_prefix: $KILN_TORCH_PREFIX, or where python3 has its torch, or empty.

set(_torch_prefix "$ENV{KILN_TORCH_PREFIX}")
if(_torch_prefix STREQUAL "")
    execute_process(
        COMMAND python3 -c "import importlib.util; print(*importlib.util.find_spec('torch').submodule_search_locations)"
        OUTPUT_VARIABLE _torch_prefix
        OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_QUIET)
endif()
if(NOT EXISTS "${_torch_prefix}/share/cmake/Torch/TorchConfig.cmake")
    set(_torch_prefix "")
endif()

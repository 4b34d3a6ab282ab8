# Every third-party package and the required version, stated once.
#
# A library names the packages it uses (`kiln_library(... PACKAGES TBB)`); the same entry finds the
# package when the library is declared and again in the library's installed config file.

set(KILN_PACKAGE_Threads Threads)
set(KILN_PACKAGE_OpenSSL OpenSSL 3 COMPONENTS Crypto SSL)
set(KILN_PACKAGE_OpenMP OpenMP COMPONENTS CXX)
set(KILN_PACKAGE_Torch Torch 2.11 CONFIG)
set(KILN_PACKAGE_TBB TBB 2021.8 CONFIG)
set(KILN_PACKAGE_Boost Boost 1.74 CONFIG)
set(KILN_PACKAGE_nlohmann_json nlohmann_json 3.11 CONFIG)
set(KILN_PACKAGE_CLI11 CLI11 2.1 CONFIG)
set(KILN_PACKAGE_zstd zstd)
set(KILN_PACKAGE_ZLIB ZLIB 1.2.12)
set(KILN_PACKAGE_benchmark benchmark 1.7 CONFIG)
# Optional: the container of models for CUDA needs its headers, the tests its compiler.
set(KILN_PACKAGE_CUDAToolkit CUDAToolkit 12)

# Imported targets must be visible to the libraries that link the one that found them.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# kiln_find_packages(<key>...): finds each package once.
macro (kiln_find_packages)
  foreach (_kiln_package IN ITEMS ${ARGN})
    if (NOT DEFINED KILN_PACKAGE_${_kiln_package})
      message(FATAL_ERROR "${_kiln_package} is not in cmake/KilnDependencies.cmake")
    endif ()
    get_property(_kiln_is_found GLOBAL PROPERTY KILN_FOUND_${_kiln_package})
    if (NOT _kiln_is_found)
      if (_kiln_package STREQUAL "Torch")
        _kiln_last_resort_for_torch(_kiln_paths)
      else ()
        set(_kiln_paths "")
      endif ()
      find_package(${KILN_PACKAGE_${_kiln_package}} REQUIRED ${_kiln_paths})
      set_property(GLOBAL PROPERTY KILN_FOUND_${_kiln_package} TRUE)
    endif ()
  endforeach ()
endmacro ()

# kiln_find_optional_package(<key>): finds a package that may be missing; sets <key>_FOUND.
macro (kiln_find_optional_package key)
  find_package(${KILN_PACKAGE_${key}} QUIET)
endmacro ()

# The libtorch inside the wheel that ./dev setup installs: searched after everything else.
function (_kiln_last_resort_for_torch result)
  set(python "${KILN_ROOT_DIR}/.venv/bin/python")
  set(${result} "" PARENT_SCOPE)
  if (EXISTS "${python}")
    execute_process(
      COMMAND "${python}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
      OUTPUT_VARIABLE packages
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(${result} PATHS "${packages}/torch" PARENT_SCOPE)
  endif ()
endfunction ()

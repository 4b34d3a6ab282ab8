# Debian's libzstd-dev and vcpkg's zstd, under one target: zstd::libzstd.

include(FindPackageHandleStandardArgs)
find_path(zstd_INCLUDE_DIR zstd.h)
find_library(zstd_LIBRARY zstd)
mark_as_advanced(zstd_INCLUDE_DIR zstd_LIBRARY)
find_package_handle_standard_args(zstd REQUIRED_VARS zstd_LIBRARY zstd_INCLUDE_DIR)

if (zstd_FOUND AND NOT TARGET zstd::libzstd)
  add_library(zstd::libzstd UNKNOWN IMPORTED GLOBAL)
  set_target_properties(zstd::libzstd PROPERTIES
    IMPORTED_LOCATION "${zstd_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${zstd_INCLUDE_DIR}")
endif ()

if(NOT EXISTS "${CURRENT_PORT_DIR}/../../libs/jit/CMakeLists.txt")
    message(FATAL_ERROR "kiln-jit builds from a checkout of the kiln workspace: --overlay-ports=<checkout>/ports")
endif()
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}/libs/jit"
    OPTIONS -DKILN_BUILD_TESTS=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/kiln-jit PACKAGE_NAME kiln-jit)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

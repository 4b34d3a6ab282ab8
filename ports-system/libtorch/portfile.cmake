# Nothing is resolved here: a path found now would be frozen into vcpkg's binary cache.
set(VCPKG_POLICY_EMPTY_INCLUDE_FOLDER enabled)
file(INSTALL
    "${CURRENT_PORT_DIR}/TorchConfig.cmake"
    "${CURRENT_PORT_DIR}/TorchConfigVersion.cmake"
    "${CURRENT_PORT_DIR}/torch-prefix.cmake"
    DESTINATION "${CURRENT_PACKAGES_DIR}/share/torch")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/libtorch/copyright" "The licence of the libtorch that is forwarded to applies.\n")

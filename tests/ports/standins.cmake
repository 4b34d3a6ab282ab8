# What a portfile may call, in place of vcpkg's own scripts: enough of it to run ours unmodified.
#
# cmake -DPORT=… -DCURRENT_PORT_DIR=… -DCURRENT_PACKAGES_DIR=… -DCURRENT_BUILDTREES_DIR=…
#       -DCURRENT_INSTALLED_DIR=… -DJOBS=… -DOPTIMIZATION=… -P standins.cmake
#
# Release only, as our triplets say.

cmake_minimum_required(VERSION 3.25)

set(VCPKG_BUILD_TYPE release)
set(VCPKG_TARGET_IS_LINUX ON)
set(VCPKG_LIBRARY_LINKAGE static)

function (_run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if (NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
  endif ()
endfunction ()

function (vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS;MAYBE_UNUSED_VARIABLES")
  if (arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_configure: no stand-in for ${arg_UNPARSED_ARGUMENTS}")
  endif ()
  _run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}" -G Ninja
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=${OPTIMIZATION} -DNDEBUG"
    "-DCMAKE_PREFIX_PATH=${CURRENT_INSTALLED_DIR}" "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}"
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF ${arg_OPTIONS})
endfunction ()

function (vcpkg_cmake_install)
  _run("${CMAKE_COMMAND}" --build "${CURRENT_BUILDTREES_DIR}" --parallel ${JOBS} --target install)
endfunction ()

# Moves lib/cmake/<package> to share/<package> and takes the lost folder out of the relative paths.
function (vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH;PACKAGE_NAME" "")
  if (NOT arg_CONFIG_PATH MATCHES "^lib/cmake/[^/]+$")
    message(FATAL_ERROR "vcpkg_cmake_config_fixup: no stand-in for CONFIG_PATH ${arg_CONFIG_PATH}")
  endif ()
  set(share "${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME}")
  file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share")
  file(RENAME "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}" "${share}")
  file(GLOB leftovers "${CURRENT_PACKAGES_DIR}/lib/cmake/*")
  if (NOT leftovers)
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
  endif ()

  file(GLOB scripts "${share}/*.cmake")
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  foreach (script IN LISTS scripts)
    file(READ "${script}" text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    file(WRITE "${script}" "${text}")
  endforeach ()
endfunction ()

function (vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(READ ${arg_FILE_LIST} text)
  file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "${text}")
endfunction ()

include("${CURRENT_PORT_DIR}/portfile.cmake")

# The checks that vcpkg makes after a build, as far as our ports can fail them.
if (VCPKG_POLICY_EMPTY_PACKAGE)
  return ()
endif ()
if (NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
  message(FATAL_ERROR "${PORT}: share/${PORT}/copyright is missing")
endif ()
if (NOT EXISTS "${CURRENT_PACKAGES_DIR}/include" AND NOT VCPKG_POLICY_EMPTY_INCLUDE_FOLDER)
  message(FATAL_ERROR "${PORT}: there are no headers in include/")
endif ()
foreach (forbidden IN ITEMS debug/include debug/share lib/cmake)
  if (EXISTS "${CURRENT_PACKAGES_DIR}/${forbidden}")
    message(FATAL_ERROR "${PORT}: ${forbidden} must not be in a package")
  endif ()
endforeach ()
file(GLOB_RECURSE scripts "${CURRENT_PACKAGES_DIR}/share/*")
foreach (script IN LISTS scripts)
  file(READ "${script}" text)
  foreach (path IN ITEMS "${CURRENT_PACKAGES_DIR}" "${CURRENT_INSTALLED_DIR}" "${CURRENT_BUILDTREES_DIR}")
    string(FIND "${text}" "${path}" position)
    if (NOT position EQUAL -1)
      message(FATAL_ERROR "${PORT}: ${script} holds the absolute path ${path}")
    endif ()
  endforeach ()
endforeach ()

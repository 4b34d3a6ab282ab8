# kiln_library(
#   NAME <name>                 # libs/<name>; target kiln-<name>, used as kiln::<name>
#   [HEADERS <file>...]         # public, relative to include/kiln/<name with '_'>/
#   [SOURCES <file>...]         # relative to src/; none makes a header-only library
#   [DEPENDS <target>...]       # used in the public headers
#   [PRIVATE_DEPENDS <target>...]
#   [PACKAGES <package>...]     # keys of KilnDependencies that the targets above come from
# )
#
# Declares one library of the workspace, its header check, and its CMake package kiln-<name>.
#
# kiln_archive(NAME <name> SOURCES <file>... [INCLUDES <dir>...] [SHARES <name> WITHOUT <file>])
#
# Declares the static archive that is linked into compiled models: position independent, hidden
# symbols, no dependency on Kiln's libraries. It is installed as lib<target>.a, and is kiln::<name> in
# the package of the library that declares it, so that a consumer can ask for its path. SHARES adds the
# objects of another archive, except that of <file>, which this archive replaces.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(KILN_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)

function (kiln_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME"
    "HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS;PACKAGES")
  if (arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kiln_library(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif ()

  set(target "kiln-${arg_NAME}")
  string(REPLACE "-" "_" folder "${arg_NAME}")
  if (arg_NAME STREQUAL "kiln")
    set(target kiln)
    set(folder ".")
  endif ()

  kiln_find_packages(${arg_PACKAGES})
  _kiln_require(${target} ${arg_DEPENDS} ${arg_PRIVATE_DEPENDS})

  if (arg_SOURCES)
    list(TRANSFORM arg_SOURCES PREPEND "src/")
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE src)
    target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
    target_compile_options(${target} PRIVATE ${KILN_WARNINGS})
    _kiln_sanitize(${target})
  else ()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
  endif ()
  add_library(kiln::${arg_NAME} ALIAS ${target})

  target_compile_features(${target} ${scope} cxx_std_20)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${arg_NAME}
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)

  list(TRANSFORM arg_HEADERS PREPEND "include/kiln/${folder}/")
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})

  _kiln_install_package(${target} "${arg_PACKAGES}" "${arg_DEPENDS};${arg_PRIVATE_DEPENDS}")
  kiln_installs(${target})
endfunction ()

# kiln_installs(<target>): what `cmake --install` wants is built by the target kiln-installed.
function (kiln_installs target)
  if (NOT TARGET kiln-installed)
    add_custom_target(kiln-installed)
  endif ()
  add_dependencies(kiln-installed ${target})
endfunction ()

function (kiln_archive)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SHARES;WITHOUT" "SOURCES;INCLUDES")
  set(target "kiln-${arg_NAME}")
  list(TRANSFORM arg_SOURCES PREPEND "src/")
  add_library(${target} STATIC ${arg_SOURCES})
  if (arg_SHARES)
    set(objects "$<TARGET_OBJECTS:kiln-${arg_SHARES}>")
    target_sources(${target} PRIVATE "$<FILTER:${objects},EXCLUDE,/${arg_WITHOUT}>")
  endif ()
  target_include_directories(${target}
    PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_SOURCE_DIR}/src")
  target_include_directories(${target} SYSTEM PRIVATE ${arg_INCLUDES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE ${KILN_WARNINGS})
  _kiln_sanitize(${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${arg_NAME}
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  install(TARGETS ${target} EXPORT ${PROJECT_NAME} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  kiln_installs(${target})
endfunction ()

# kiln_check_version_header(<file>): stops the configure step if the version macros of a public header
# differ from KILN_VERSION.
function (kiln_check_version_header file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  set(stated "")
  foreach (part IN ITEMS MAJOR MINOR PATCH)
    file(STRINGS "${file}" line REGEX "^#define KILN_VERSION_${part} [0-9]+$")
    string(REGEX REPLACE "^.* " "" number "${line}")
    list(APPEND stated "${number}")
  endforeach ()
  list(JOIN stated "." stated)
  if (NOT stated STREQUAL KILN_VERSION)
    message(FATAL_ERROR "${file} says ${stated}; cmake/Kiln.cmake says ${KILN_VERSION}")
  endif ()
endfunction ()

# The workspace is a DAG: in a workspace build only libraries declared before this one exist as
# targets. A library configured alone takes its siblings from installed packages.
macro (_kiln_require target)
  foreach (_kiln_dependency IN ITEMS ${ARGN})
    if (NOT TARGET ${_kiln_dependency} AND "${_kiln_dependency}" MATCHES "^kiln::" AND PROJECT_IS_TOP_LEVEL)
      string(REPLACE "::" "-" _kiln_package "${_kiln_dependency}")
      find_package(${_kiln_package} ${KILN_VERSION} EXACT CONFIG REQUIRED)
    endif ()
    if (NOT TARGET ${_kiln_dependency})
      message(FATAL_ERROR
        "${target}: ${_kiln_dependency} is not declared above it; see the order in libs/CMakeLists.txt")
    endif ()
  endforeach ()
endmacro ()

function (_kiln_sanitize target)
  if (KILN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${KILN_SANITIZE} -fno-omit-frame-pointer)
    if (KILN_SANITIZE MATCHES "undefined")
      # It reads the type information of classes that libtorch does not export.
      target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
    endif ()
    if (KILN_SANITIZE STREQUAL "thread")
      # libtorch's headers contain a fence, and g++ warns that this sanitizer does not support fences.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
    endif ()
    target_link_options(${target} PUBLIC -fsanitize=${KILN_SANITIZE})
  endif ()
endfunction ()

# Installs `target` as a separate package, whose config file finds the packages that it links to.
function (_kiln_install_package target packages dependencies)
  set(KILN_FIND_DEPENDENCIES "")
  foreach (package IN LISTS packages)
    string(REPLACE ";" " " arguments "${KILN_PACKAGE_${package}}")
    set(found "find_dependency(${arguments})\n")
    if (package STREQUAL "Torch")
      # Its package file warns each time about kineto, which a shared libtorch does not need.
      set(found "if (NOT TARGET torch)\n  ${found}endif ()\n")
    endif ()
    string(APPEND KILN_FIND_DEPENDENCIES "${found}")
  endforeach ()
  list(FILTER dependencies INCLUDE REGEX "^kiln::")
  foreach (dependency IN LISTS dependencies)
    string(REPLACE "::" "-" package "${dependency}")
    string(APPEND KILN_FIND_DEPENDENCIES "find_dependency(${package} ${KILN_VERSION} EXACT CONFIG)\n")
  endforeach ()

  set(destination "${CMAKE_INSTALL_LIBDIR}/cmake/${target}")
  set(KILN_TARGETS_FILE "${target}Targets.cmake")
  configure_package_config_file(
    "${KILN_CMAKE_DIR}/KilnPackageConfig.cmake.in" "${target}Config.cmake"
    INSTALL_DESTINATION "${destination}")
  write_basic_package_version_file("${target}ConfigVersion.cmake"
    VERSION ${KILN_VERSION} COMPATIBILITY SameMinorVersion)

  install(TARGETS ${target} EXPORT ${target} FILE_SET HEADERS)
  install(EXPORT ${target} FILE ${KILN_TARGETS_FILE} NAMESPACE kiln:: DESTINATION "${destination}")
  install(
    FILES
      "${CMAKE_CURRENT_BINARY_DIR}/${target}Config.cmake"
      "${CMAKE_CURRENT_BINARY_DIR}/${target}ConfigVersion.cmake"
    DESTINATION "${destination}")
  if ("zstd" IN_LIST packages)
    install(FILES "${KILN_CMAKE_DIR}/Findzstd.cmake" DESTINATION "${destination}")
  endif ()
endfunction ()

# kiln_source_digest(<target> <constant> [<library>...])
#
# Gives <target> a source file that defines `kiln::<constant>`: the digest of its own sources, and of
# the archives of the libraries that are named.

function (kiln_source_digest target constant)
  set(inputs "")
  foreach (library IN LISTS ARGN)
    list(APPEND inputs "$<TARGET_FILE:kiln::${library}>")
  endforeach ()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^src/.*\\.cpp$")
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  foreach (source IN LISTS sources)
    list(APPEND inputs "${source}")
    string(REGEX REPLACE "\\.cpp$" ".hpp" header "${source}")
    if (EXISTS "${header}")
      list(APPEND inputs "${header}")
    endif ()
  endforeach ()
  get_target_property(headers ${target} HEADER_SET)
  foreach (header IN LISTS headers)
    cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    list(APPEND inputs "${header}")
  endforeach ()
  list(JOIN inputs "," files)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${constant}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND
      "${CMAKE_COMMAND}" "-DNAME=${constant}" "-DFILES=${files}" "-DOUTPUT=${output}"
      -P "${KILN_CMAKE_DIR}/KilnWriteDigest.cmake"
    DEPENDS ${inputs}
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction ()

# cmake -DPROGRAM=… -DFOLDER=… -DPREFIX=… -P run_repro.cmake
#
# What KILN_DUMP leaves is built and run as a stranger would.

function (run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  message(STATUS "${said}")
  if (NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGN}")
  endif ()
endfunction ()

file(REMOVE_RECURSE "${FOLDER}")
set(ENV{KILN_DUMP} "${FOLDER}/dumps")
run("${PROGRAM}")
set(ENV{KILN_DUMP} "")
file(GLOB dumps "${FOLDER}/dumps/*")
list(GET dumps 0 dump)
string(REPLACE ";" ":" prefixes "${PREFIX}")
set(ENV{CMAKE_PREFIX_PATH} "${prefixes}")
run("${CMAKE_COMMAND}" -S "${dump}" -B "${FOLDER}/build" -G Ninja -DCMAKE_BUILD_TYPE=Release)
run("${CMAKE_COMMAND}" --build "${FOLDER}/build")
run("${CMAKE_COMMAND}" -E chdir "${FOLDER}" "${FOLDER}/build/repro")

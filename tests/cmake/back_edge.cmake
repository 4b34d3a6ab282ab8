# A library that names one declared after it stops the configure step; in order, it does not.

function (configure order expect_success)
  file(REMOVE_RECURSE "${WORK}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${ROOT}/tests/cmake/back_edge" -B "${WORK}" -G Ninja
      "-DROOT=${ROOT}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DORDER=${order}" -DKILN_BUILD_TESTS=OFF
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if (expect_success AND NOT result EQUAL 0)
    message(FATAL_ERROR "the order ${order} must configure:\n${output}")
  endif ()
  if (NOT expect_success AND NOT output MATCHES "kiln-upper: kiln::lower is not declared above it")
    message(FATAL_ERROR "the order ${order} must be refused with a message that names the edge:\n${output}")
  endif ()
endfunction ()

configure("lower;upper" TRUE)
configure("upper;lower" FALSE)

# Of three test files, one passes, one fails, and one has no test in it: CTest must say exactly that.

file(REMOVE_RECURSE "${WORK}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${ROOT}/tests/cmake/suite" -B "${WORK}" -G Ninja
    "-DROOT=${ROOT}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)

function (run_one name expected)
  execute_process(
    COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}" --tests-regex "^suite\\.${name}$" --no-tests=error
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if (expected STREQUAL "passes" AND NOT result EQUAL 0 OR expected STREQUAL "fails" AND result EQUAL 0)
    message(FATAL_ERROR "suite.${name} must be reported as one that ${expected}:\n${output}")
  endif ()
endfunction ()

run_one(passing_test passes)
run_one(failing_test fails)
run_one(empty_test fails)

# cmake -DPROGRAM=… -DFOLDER=… -P run_example.cmake

file(REMOVE_RECURSE "${FOLDER}")
set(ENV{KILN_CACHE_DIR} "${FOLDER}")

# expect(<what it prints> <argument>...)
function (expect expected)
  execute_process(COMMAND "${PROGRAM}" ${ARGN} OUTPUT_VARIABLE printed RESULT_VARIABLE code
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE complaint)
  if (NOT "${printed}${complaint}" STREQUAL "${expected}")
    message(FATAL_ERROR "expected '${expected}', got '${printed}${complaint}' (${code})")
  endif ()
endfunction ()

expect("compiled: 9" "x*x + sin(y)" x=3 y=0)
expect("from the cache: 1" "x*x + sin(y)" x=1 y=0)
expect("from the cache: 4" "a*a + sin(b)" a=2 b=0)
expect("compiled: 0.5" "1/2")
set(ENV{KILN_CACHE} off)
expect("compiled: 9" "x*x + sin(y)" x=3 y=0)
set(ENV{KILN_CACHE} read)
expect("from the cache: 0.5" "1/2")
expect("compiled: 6" "2*3")
expect("compiled: 6" "2*3")
expect("expression-compiler: there is no function 'tan'" "tan(1)")

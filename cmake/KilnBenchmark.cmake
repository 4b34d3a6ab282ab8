# kiln_benchmark(LIBRARY <name> SOURCES <file>... [DEPENDS <target>...])
#
# Builds kiln-<name>-benchmarks from benchmarks/<file> with Google Benchmark. Nothing runs it
# automatically, because its numbers are meaningful only on an idle machine.

function (kiln_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "LIBRARY" "SOURCES;DEPENDS")
  kiln_find_packages(benchmark)

  set(target "kiln-${arg_LIBRARY}-benchmarks")
  list(TRANSFORM arg_SOURCES PREPEND "benchmarks/")
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target}
    PRIVATE kiln::${arg_LIBRARY} benchmark::benchmark_main ${arg_DEPENDS})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE ${KILN_WARNINGS})
endfunction ()

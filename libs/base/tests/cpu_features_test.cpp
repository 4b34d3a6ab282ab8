#include "kiln/base/cpu_features.hpp"

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

TEST_CASE("features are read as either architecture writes them", "[base][cpu_features]") {
  CHECK(cpu_features_in("processor : 0\nflags\t\t: fpu avx2 fma\nbugs : x\n") ==
        std::vector<std::string>{"fpu", "avx2", "fma"});
  CHECK(cpu_features_in("processor : 0\nFeatures\t: fp asimd\nCPU part : 1\nFeatures : sve\n") ==
        std::vector<std::string>{"fp", "asimd"});
  CHECK(cpu_features_in("model name : unknown\n").empty());
}

TEST_CASE("this machine has features", "[base][cpu_features]") {
  CHECK_FALSE(cpu_features().empty());
}

TEST_CASE("the last level that nothing is missing of is the best", "[base][cpu_features]") {
  const std::vector<const char*> needed{"sse4_2", "sse4_2 avx2", "sse4_2 avx2 avx512f"};

  CHECK(best_cpu_level(needed, {"sse4_2", "avx2", "fma"}) == 1);
  CHECK(best_cpu_level(needed, {"sse4_2", "avx2", "avx512f"}) == 2);
  CHECK(best_cpu_level(needed, {"sse4_2"}) == 0);
  CHECK(best_cpu_level(needed, {}) == 0);
}

TEST_CASE("what is missing is named, and nothing where nothing is known", "[base][cpu_features]") {
  const std::vector<std::string> present = {"avx2", "fma"};

  CHECK(missing_cpu_features("avx2 avx512f fma avx512vl", present) == "avx512f avx512vl");
  CHECK(missing_cpu_features("", present).empty());
  CHECK(missing_cpu_features("avx512f", {}).empty());
}

}  // namespace
}  // namespace kiln

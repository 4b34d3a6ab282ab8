#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using std::chrono::nanoseconds;

TEST_CASE("percentiles are upper bounds within a factor of two", "[container-runtime][latency]") {
  LatencyHistogram histogram;
  CHECK(histogram.percentile(0.5) == nanoseconds(0));

  for (int i = 0; i < 98; ++i) {
    histogram.add(nanoseconds(1000));
  }
  histogram.add(nanoseconds(100'000));
  histogram.add(nanoseconds(0));

  CHECK(histogram.percentile(0.01) == nanoseconds(2));
  CHECK(histogram.percentile(0.5) == nanoseconds(1024));
  CHECK(histogram.percentile(0.99) == nanoseconds(1024));
  CHECK(histogram.percentile(1) == nanoseconds(131'072));
}

TEST_CASE("a call of hours is counted", "[container-runtime][latency]") {
  LatencyHistogram histogram;
  histogram.add(std::chrono::hours(100));
  CHECK(histogram.percentile(1) > std::chrono::minutes(10));
}

}  // namespace
}  // namespace kiln::container_runtime

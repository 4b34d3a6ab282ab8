// The headers of CUDA kernels (backend/cuda/kernels) as ordinary code, on an emulated GPU.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
// Threads that are fibers have to come first.
#include "support/cuda_emulation.hpp"

#include "backend/cuda/kernels/arithmetic.hpp"
#include "backend/cuda/kernels/atomic.hpp"
#include "backend/cuda/kernels/block.hpp"
#include "backend/cuda/kernels/combine.hpp"
#include "backend/cuda/kernels/elements.hpp"
#include "backend/cuda/kernels/vectors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "backend/cuda/emit/prelude.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen::cuda {
namespace {

// Operands and results of one block's threads.
struct Threads {
  long long values[256];
  long long results[256];
};

int thread_number(int width) {
  return static_cast<int>(threadIdx.y) * width + static_cast<int>(threadIdx.x);
}

Threads random_threads(std::uint32_t seed) {
  std::mt19937_64 random(seed);
  Threads threads{};
  for (long long& value : threads.values) {
    value = static_cast<long long>(random() >> 20) - (1LL << 43);
  }
  return threads;
}

template <int width, int rows>
void reduce_rows(Arguments<1, 1> arguments) {
  auto& threads = *static_cast<Threads*>(arguments.buffers[0]);
  const int thread = thread_number(width);
  threads.results[thread] = reduce_row<Sum, width, rows>(threads.values[thread]);
}

template <int width, int rows>
void reduce_columns(Arguments<1, 1> arguments) {
  auto& threads = *static_cast<Threads*>(arguments.buffers[0]);
  const int thread = thread_number(width);
  threads.results[thread] = reduce_column<Maximum, width, rows>(threads.values[thread]);
}

template <int width, int rows>
void scan(Arguments<1, 1> arguments) {
  auto& threads = *static_cast<Threads*>(arguments.buffers[0]);
  const int thread = thread_number(width);
  long long carry = 1000;
  const long long before = scan_row<Sum, width, rows>(threads.values[thread], 0LL, carry);
  // Every thread has what the next trip begins with.
  threads.results[thread] = before ^ carry;
}

void run(void (*kernel)(Arguments<1, 1>), int width, int rows, Threads& threads) {
  const Arguments<1, 1> arguments{{&threads}, {0}};
  kiln_emulation::launch(
      kernel, 1, 1, static_cast<unsigned>(width), static_cast<unsigned>(rows), arguments);
}

template <int width, int rows>
void check_reductions(std::uint32_t seed) {
  INFO("width " << width << ", rows " << rows << ", seed " << seed);
  Threads threads = random_threads(seed);
  run(reduce_rows<width, rows>, width, rows, threads);
  for (int i = 0; i < width * rows; ++i) {
    const long long* const row = threads.values + i / width * width;
    CHECK(threads.results[i] == std::accumulate(row, row + width, 0LL));
  }
  run(reduce_columns<width, rows>, width, rows, threads);
  for (int i = 0; i < width * rows; ++i) {
    long long largest = threads.values[i % width];
    for (int row = 1; row < rows; ++row) {
      largest = std::max(largest, threads.values[row * width + i % width]);
    }
    CHECK(threads.results[i] == largest);
  }
}

template <int width, int rows>
void check_scans(std::uint32_t seed) {
  INFO("width " << width << ", rows " << rows << ", seed " << seed);
  Threads threads = random_threads(seed);
  run(scan<width, rows>, width, rows, threads);
  for (int row = 0; row < rows; ++row) {
    const long long* const values = threads.values + row * width;
    const long long all = std::accumulate(values, values + width, 1000LL);
    long long before = 1000;
    for (int i = 0; i < width; ++i) {
      CHECK((threads.results[row * width + i] ^ all) == before);
      before += values[i];
    }
  }
}

template <int count, class T>
void check_copies() {
  for (const int offset : {0, 1}) {  // The second is not aligned.
    alignas(16) std::array<T, count + 2> from{}, to{};
    for (std::size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<T>(i + 1);
    }
    copy_vector<count>(to.data() + offset, from.data() + offset, offset == 0);
    for (int i = 0; i < count + 2; ++i) {
      const auto place = static_cast<std::size_t>(i);
      CHECK(to[place] == (i >= offset && i < offset + count ? from[place] : T{}));
    }
  }
}

TEST_CASE("threads of a block reduce rows and columns", "[codegen][cuda]") {
  const std::uint32_t seed = std::random_device()();
  check_reductions<1, 8>(seed);
  check_reductions<4, 4>(seed);
  check_reductions<32, 1>(seed);
  check_reductions<32, 8>(seed);
  check_reductions<64, 2>(seed);
  check_reductions<256, 1>(seed);
}

TEST_CASE("threads of a block scan the sums of their row behind what was carried",
          "[codegen][cuda]") {
  const std::uint32_t seed = std::random_device()();
  check_scans<32, 1>(seed);
  check_scans<32, 8>(seed);
  check_scans<64, 4>(seed);
  check_scans<256, 1>(seed);
}

TEST_CASE("integers wrap, and extrema keep NaN", "[codegen][cuda]") {
  constexpr long long kLargest = std::numeric_limits<long long>::max();
  CHECK(Sum::of(kLargest, 1LL) == std::numeric_limits<long long>::min());
  CHECK(Sum::of(std::numeric_limits<int>::max(), 1) == std::numeric_limits<int>::min());
  CHECK(Product::of(kLargest, 2LL) == -2);
  CHECK(std::isnan(Maximum::of(std::nanf(""), 1.0f)));
  CHECK(std::isnan(Maximum::of(1.0f, std::nanf(""))));
  CHECK(std::isnan(Minimum::of(1.0, std::nan(""))));
  CHECK(sign(-2.5f) == -1.0f);
  CHECK(sign(0.0) == 0.0);
}

TEST_CASE("an index out of range is 0 and is remembered", "[codegen][cuda]") {
  bool ok = true;
  CHECK(check_index(4, 5, ok) == 4);
  CHECK(ok);
  CHECK(check_index(5, 5, ok) == 0);
  CHECK_FALSE(ok);
  CHECK(check_index(0, 5, ok) == 0);
  CHECK_FALSE(ok);
  ok = true;
  CHECK(check_index(-1, 5, ok) == 0);
  CHECK_FALSE(ok);
}

TEST_CASE("elements are stored in the nearest of their type", "[codegen][cuda]") {
  CHECK(stored<BFloat16>(1.0f).bits == 0x3f80);
  CHECK(stored<BFloat16>(1.00390625f).bits == 0x3f80);  // A tie, to even.
  CHECK(stored<BFloat16>(1.01171875f).bits == 0x3f82);  // A tie, to even.
  CHECK(std::isnan(value(stored<BFloat16>(std::nanf("")))));
  CHECK(value(stored<Half>(65504.0f)) == 65504.0f);
  CHECK(std::isinf(value(stored<Half>(65520.0f))));
  CHECK(value(Bool{7}));
  CHECK(stored<Bool>(true).bits == 1);
  CHECK(stored<signed char>(300) == 44);
}

TEST_CASE("vectors are copied whole, aligned or not", "[codegen][cuda]") {
  check_copies<1, float>();
  check_copies<4, float>();
  check_copies<8, short>();
  check_copies<2, signed char>();
  check_copies<3, int>();
  check_copies<2, double>();
}

TEST_CASE("vectors are added to what lies there", "[codegen][cuda]") {
  alignas(16) std::array<float, 4> to{1, 2, 3, 4};
  const std::array<float, 4> from{10, 20, 30, 40};
  add_vector<4>(to.data(), from.data(), true);
  CHECK(to == std::array<float, 4>{11, 22, 33, 44});
}

TEST_CASE("the text of the headers includes nothing and is in no namespace", "[codegen][cuda]") {
  CHECK(prelude().find("#include") == std::string::npos);
  CHECK(prelude().find("namespace") == std::string::npos);
  CHECK(prelude().find("#pragma once") == std::string::npos);
  CHECK(prelude().find("struct Half {") != std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen::cuda

#pragma GCC diagnostic pop

#include "backend/cpu/kernels/kernel_headers.hpp"

#include <algorithm>
#include <string>

#include "kiln/base/error.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

std::vector<std::string> names_of(const KernelHeader& header) {
  std::vector<std::string> names;
  for (const HeaderParagraph& paragraph : paragraphs_of(header)) {
    names.emplace_back(paragraph.name);
  }
  return names;
}

TEST_CASE("a paragraph is known by what it defines", "[codegen][kernel_headers]") {
  const KernelHeader header{"made_up", R"(// A comment.

#pragma once

#include "other.hpp"

#ifndef KILN_WIDTH
#define KILN_WIDTH 8
#endif

namespace {

// A number.
constexpr int kNumber = 3;

typedef float Wide __attribute__((vector_size(64)));

typedef Numbers<kNumber>::Type Numbers3;

template <int n, class T>
struct Row : Line<n> {
  T elements[n];
};

template <class T>
__attribute__((noinline, cold)) static T twice(const T& x) {
  return x + x;
}

extern "C" int omp_get_thread_num();

#if defined(__clang__)
#define IN_ORDER
#else
#define IN_ORDER __attribute__((noinline))
#endif

KILN_LANEWISE(floor, __builtin_floor)

}  // namespace
)"};
  CHECK(names_of(header) == std::vector<std::string>{"kNumber",
                                                     "Wide",
                                                     "Numbers3",
                                                     "Row",
                                                     "twice",
                                                     "omp_get_thread_num",
                                                     "IN_ORDER",
                                                     "floor"});
}

TEST_CASE("a kernel carries what it uses and nothing else", "[codegen][kernel_headers]") {
  const std::string text = with_kernel_headers("void f(float* x) { store(x, tanh(load(x))); }", 8);
  CHECK_THAT(text, testing::contains("#define KILN_LANES 8\n"));
  CHECK_THAT(text, testing::contains("F32 tanh(F32 x)"));
  CHECK_THAT(text, testing::contains("half_expm1(F32 x)"));  // What tanh uses.
  CHECK_THAT(text, !testing::contains("F64 tanh(F64 x)"));
  CHECK_THAT(text, !testing::contains("erf("));
  CHECK_THAT(text, !testing::contains("struct Bf16"));
  CHECK_THAT(text, !testing::contains("#include"));

  const std::string wide = with_kernel_headers("void f(double* x) { store(x, tanh(load(x))); }", 8);
  CHECK_THAT(wide, testing::contains("F64 tanh(F64 x)"));

  // Words of comments are not used.
  CHECK_THAT(with_kernel_headers("// tanh\n", 8), !testing::contains("F32 tanh"));
}

TEST_CASE("every kernel that is written by hand is a text by itself", "[codegen][kernel_headers]") {
  CHECK(hand_written_kernels().size() == 4);
  for (const KernelHeader& kernel : hand_written_kernels()) {
    CAPTURE(kernel.name);
    const std::string text = hand_written_kernel(kernel.name, 4, {});
    CHECK_THAT(text, testing::contains("void KILN_KERNEL("));
    CHECK_THAT(text, !testing::contains("#include"));
    CHECK_THAT(text, !testing::contains("#ifndef"));
    CHECK_THAT(text, !testing::contains("kiln::codegen"));
  }
  CHECK_THROWS_AS(hand_written_kernel("no_such_kernel", 4, {}), Error);
}

}  // namespace
}  // namespace kiln::codegen

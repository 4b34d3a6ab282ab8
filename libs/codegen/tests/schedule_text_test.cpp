#include "schedule/print_schedule.hpp"

#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernels/attention_params.hpp"
#include "backend/cpu/kernels/convolution_params.hpp"
#include "backend/cpu/kernels/gemm_params.hpp"
#include "backend/cpu/library/argument_fields.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/text_backend.hpp"

namespace kiln::codegen {
namespace {

using testing::TextBackend;

std::string schedule_text(const std::string& text, const Backend& backend) {
  const ir::Graph graph = ir::parse(text);
  return print(graph, schedule(graph, backend, true));
}

TEST_CASE("a schedule is its buffers and its steps", "[codegen][schedule]") {
  const std::string text = schedule_text(R"(graph g {
    symbol %n in [1, 64]
    input %x: f32[n, 6] user
    input %w: f32[3, 6] parameter
    %r: f32[n, 6] = aten.relu.default(%x)
    %t: f32[6, 3]{1, 6} = aten.t.default(%w) view(0:0)
    %p: f32[n, 3] = aten.mm.default(%r, %t)
    %s: f32[n, 1] = aten.sum.dim_IntList(%p, [1], true, none)
    %y: f32[n, 3] = aten.div.Tensor(%p, %s)
    output %y user
  })",
                                         TextBackend());

  CHECK(text == R"(schedule g {
  input %x: f32[n, 6]
  constant %w: f32[3, 6]
  temporary %r: f32[n, 6]
  temporary %p: f32[n, 3]
  output %y: f32[n, 3]
  view %t: [6, 3]{1, 6} of %w
  nest relu {
    for j < 6*n {
      %r[j] = maximum(%x[j], 0)
    }
  }
  call %p: f32[n, 3] = aten.mm.default(%r, %t)
  nest sum, div {
    for o < n {
      for j < 3 {
        row r0 = sum(%p[3*o + j])
      }
      for j < 3 {
        %y[3*o + j] = divide(%p[3*o + j], r0)
      }
    }
  }
}
)");
}

TEST_CASE("kernels write the parts of a concatenation where they belong", "[codegen][schedule]") {
  const std::string text = schedule_text(R"(graph g {
    symbol %n in [1, 64]
    input %x: f32[n, 16] user
    %a: f32[n, 16] = aten.relu.default(%x)
    %b: f32[n, 16] = aten.tanh.default(%x)
    %c: f32[n, 16] = aten.sigmoid.default(%x)
    %d: f32[n, 16] = aten.exp.default(%x)
    %e: f32[n, 16] = aten.sin.default(%x)
    %f: f32[n, 16] = aten.cos.default(%x)
    %g: f32[n, 16] = aten.neg.default(%x)
    %h: f32[n, 16] = aten.abs.default(%x)
    %i: f32[n, 16] = aten.sqrt.default(%x)
    %y: f32[9*n, 16] = aten.cat.default([%a, %b, %c, %d, %e, %f, %g, %h, %i], 0)
    output %y user
  })",
                                         TextBackend());

  CHECK(text == R"(schedule g {
  input %x: f32[n, 16]
  output %y: f32[9*n, 16]
  nest relu, tanh, sigmoid, exp, sin, cos, neg, abs, sqrt {
    for j < 16*n {
      %y[j] = maximum(%x[j], 0)
      %y@{16*n}[j] = tanh(%x[j])
      %y@{32*n}[j] = sigmoid(%x[j])
      %y@{48*n}[j] = exp(%x[j])
      %y@{64*n}[j] = sin(%x[j])
      %y@{80*n}[j] = cos(%x[j])
      %y@{96*n}[j] = negate(%x[j])
      %y@{112*n}[j] = abs(%x[j])
      %y@{128*n}[j] = sqrt(%x[j])
    }
  }
}
)");
}

TEST_CASE("a window on memory whose size varies stays a view", "[codegen][schedule]") {
  const std::string text = schedule_text(R"(graph g {
    symbol %n in [8, 64]
    input %x: f32[n]#0 user
    input %z: f32[n, n]#1 user
    input %r: f32[1, n]#2 user
    %a: f32[2, 3]{1, 1}@2#0 = aten.as_strided.default(%x, [2, 3], [1, 1], 2) view(0:0)
    %b: f32[2, 2]{1, 1}#1 = aten.as_strided.default(%z, [2, 2], [1, 1], 0) view(0:0)
    %c: f32[3, 2]{1, 4}#2 = aten.as_strided.default(%r, [3, 2], [1, 4], 0) view(0:0)
    output %a user
    output %b user
    output %c user
  })",
                                         TextBackend());

  CHECK(text == R"(schedule g {
  input %x: f32[n]
  input %z: f32[n, n]
  input %r: f32[1, n]
  view %a: [2, 3]{1, 1}@2 of %x
  view %b: [2, 2]{1, 1} of %z
  view %c: [3, 2]{1, 4} of %r
}
)");
}

TEST_CASE("a kernel of the backend's own has its arguments", "[codegen][schedule]") {
  const std::string text = schedule_text(R"(graph g {
    input %x: f32[4, 6] user
    input %w: f32[6, 3] user
    %p: f32[4, 3] = aten.mm.default(%x, %w)
    output %p user
  })",
                                         TextBackend());

  CHECK(text == R"(schedule g {
  input %x: f32[4, 6]
  input %w: f32[6, 3]
  output %p: f32[4, 3]
  kernel mm reads %x, %w writes %p
    0 = 4, 1 = 6, 2 = 3
}
)");
}

TEST_CASE("arguments of hand-written kernels have the names of their structs",
          "[codegen][schedule]") {
  const auto count = [](const char* params) { return argument_fields(params).size(); };

  CHECK(count("GemmParams") == sizeof(GemmParams) / 8);
  CHECK(count("ConvolutionParams") == sizeof(ConvolutionParams) / 8);
  CHECK(count("WinogradParams") == sizeof(WinogradParams) / 8);
  CHECK(count("AttentionParams") == sizeof(AttentionParams) / 8);
  CHECK(argument_fields("GemmParams")[6].name == "m");
  CHECK(argument_fields("WinogradParams")[0].name == "convolution.images");
  CHECK(argument_fields("AttentionParams")[7].name == "query.head");
  CHECK(argument_fields("AttentionParams")[27].is_real);
}

}  // namespace
}  // namespace kiln::codegen

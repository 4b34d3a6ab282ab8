// Model libraries for CUDA, as far as they can be seen without a GPU: their text, what is in them,
// and what is refused. tests/cuda runs them.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/architectures.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using kiln::testing::contains;

ir::Graph on_cuda(const std::string& text) {
  return ir::retarget(ir::parse(text), ir::DeviceType::kCuda);
}

const std::string kGather = R"(graph g {
    input %x: f32[50, 8] user
    input %n: i64[30] user
    input %w: f32[8, 4] user
    %a: f32[30, 8] = aten.index.Tensor(%x, [%n])
    %r: f32[30, 8] = aten.relu.default(%a)
    %m: f32[30, 4] = aten.mm.default(%r, %w)
    %s: f32[] = aten.sum.default(%m, none)
    output %m user
    output %s user
  })";

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

Options for_architectures(std::vector<std::string> names) {
  Options options;
  options.arch = std::move(names);
  options.nvrtc = KILN_TEST_NVRTC;
  return options;
}

TEST_CASE("a library for CUDA has an image for each architecture, and PTX for the newest",
          "[codegen][cuda]") {
  const TemporaryDirectory folder("kiln-test");
  const auto library = folder.path() / "model.so";

  const Report report = compile(on_cuda(kGather), library, for_architectures({"sm_80", "sm_90"}));

  CHECK(report.kernels == 2);
  CHECK(report.extern_calls == 1);
  const std::string bytes = read_file(library);
  CHECK(occurrences(bytes,
                    "\x7f"
                    "ELF") == 3);  // The library and two images.
  CHECK_THAT(bytes, contains(".target sm_90") && contains("_elements"));
  CHECK_THAT(report.source,
             contains("static int (*aoti_torch_cuda_mm_out)(Handle, Handle, Handle);") &&
                 contains("kiln_cuda_function(\"aoti_torch_cuda_mm_out\")") &&
                 !contains("aoti_torch_cpu_"));
}

TEST_CASE("indices are looked at when the next run begins, or when this one ends",
          "[codegen][cuda]") {
  const TemporaryDirectory folder("kiln-test");
  const auto library = folder.path() / "model.so";
  Options options = for_architectures({"sm_90"});

  const std::string later = compile(on_cuda(kGather), library, options).source;
  options.check_indices_now = true;
  const std::string now = compile(on_cuda(kGather), library, options).source;

  CHECK_THAT(later, contains("in this run or the one before: the kernel of aten.index.Tensor"));
  CHECK_THAT(later, !contains("= kiln_cuda_synchronize(call->stream)"));
  CHECK_THAT(now, contains("= kiln_cuda_synchronize(call->stream)"));
  CHECK_THAT(now, contains("it selects from: the kernel of aten.index.Tensor"));
}

TEST_CASE("kernels that were compiled before need no NVRTC", "[codegen][cuda]") {
  std::map<Digest, std::string> store;
  Options options = for_architectures({"sm_90"});
  options.objects.find = [&](const Digest& key) -> std::optional<std::string> {
    const auto found = store.find(key);
    return found == store.end() ? std::nullopt : std::optional(found->second);
  };
  options.objects.put = [&](const Digest& key, std::string_view object) { store[key] = object; };
  const TemporaryDirectory folder("kiln-test");
  const auto library = folder.path() / "model.so";

  CHECK(compile(on_cuda(kGather), library, options).objects_reused == 0);
  CHECK(compile(on_cuda(kGather), library, options).objects_reused ==
        static_cast<int>(store.size()));
  options.arch = {"sm_80"};
  CHECK(compile(on_cuda(kGather), library, options).objects_reused == 1);  // What calls them.
}

TEST_CASE("without NVRTC a compile for CUDA says how to get it", "[codegen][cuda]") {
  const TemporaryDirectory folder("kiln-test");
  Options options = for_architectures({"sm_90"});
  options.nvrtc = "/nowhere/libnvrtc.so.13";

  CHECK_THROWS_WITH(
      compile(on_cuda(kGather), folder.path() / "model.so", options),
      contains("compiled by NVRTC, which cannot be opened") && contains("nvidia-cuda-nvrtc"));
  CHECK(!std::filesystem::exists(folder.path() / "model.so"));
}

TEST_CASE("architectures are named as NVRTC does", "[codegen][cuda]") {
  CHECK(resolve_architectures({"sm_80", "sm_90", "sm_80"}) ==
        std::vector<std::string>{"sm_80", "sm_90"});
  CHECK(cuda::ptx_architecture(resolve_architectures({"sm_100", "sm_90"})) == "compute_100");
  for (const char* wrong : {"sm_9", "90", "hopper", "sm_9x", "sm_1000", "", "sm_90,sm_80"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(resolve_architectures({"sm_80", wrong}),
                      contains("is not a GPU architecture"));
  }
  CHECK_THROWS_WITH(resolve_architectures({}), contains("such as arch=sm_90"));
}

TEST_CASE("what only CPUs have is refused by name", "[codegen][cuda]") {
  const TemporaryDirectory folder("kiln-test");
  const ir::Graph graph = on_cuda(R"(graph g {
    input %x: f32[4, 4] user
    %y: f32[4, 4] = aten._to_dense_for_cpu.default(%x)
    output %y user
  })");

  CHECK_THROWS_WITH(compile(graph, folder.path() / "model.so", for_architectures({"sm_90"})),
                    contains("aten._to_dense_for_cpu.default runs on CPUs only"));
}

TEST_CASE("a program on two devices is refused with the input's name", "[codegen][cuda]") {
  const TemporaryDirectory folder("kiln-test");
  const ir::Graph graph = ir::parse(R"(graph g {
    input %x: f32[4] cuda user
    input %y: f32[4] user
    %z: f32[4] cuda = aten.add.Tensor(%x, %y, 1)
    output %z user
  })");

  CHECK_THROWS_WITH(compile(graph, folder.path() / "model.so", for_architectures({"sm_90"})),
                    contains("input %y is on cpu, and the program is compiled for cuda"));
}

}  // namespace
}  // namespace kiln::codegen

#include "backend/cpu/library/library.hpp"

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernel_units.hpp"
#include "backend/cpu/match/attention.hpp"
#include "backend/cpu/match/packed_convolution.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "toolchain/build.hpp"
#include "toolchain/precompiled_kernels.hpp"

namespace kiln::codegen {
namespace {

// Of images of some rows and columns, three by three taps.
ConvolutionLayout layout_of(const Target& target,
                            std::int64_t channels,
                            std::int64_t rows,
                            std::int64_t columns,
                            bool adds) {
  ConvolutionLayout layout;
  layout.images = 2;
  layout.channels = channels;
  layout.width = target.panel_width;
  layout.panels = 3;
  layout.size = layout.result_size = {rows, columns};
  layout.kernel = {3, 3};
  layout.stride = layout.dilation = layout.padding = {1, 1};
  layout.adds = adds;
  return layout;
}

TEST_CASE("a convolution of any shape has one of the shared sources", "[codegen][library]") {
  for (const char* isa : {"x86-64-v4", "neon"}) {
    const Target target = resolve_target(isa);
    const std::vector<std::string> sources = library_sources(target);
    const auto is_shared = [&](const LibraryCall& call) {
      return std::ranges::find(sources, library_source(call, target)) != sources.end();
    };
    for (const std::int64_t channels : {4, 12, 64, 320}) {
      for (std::int64_t columns = 1; columns < 60; ++columns) {
        for (const bool adds : {false, true}) {
          CAPTURE(isa, channels, columns, adds);
          const ConvolutionLayout layout = layout_of(target, channels, 7, columns, adds);
          CHECK(is_shared(plan_packed_convolution(layout, target)));
          CHECK(is_shared(plan_winograd(layout, target)));
        }
      }
    }
  }
  CHECK(library_sources(resolve_target("x86-64-v2")).empty());
}

TEST_CASE("attention to any number of queries has one of the shared sources",
          "[codegen][library]") {
  for (const char* isa : {"x86-64-v4", "neon"}) {
    const Target target = resolve_target(isa);
    const std::vector<std::string> sources = library_sources(target);
    for (std::int64_t queries = kMinQueries; queries < 200; ++queries) {
      CAPTURE(isa, queries);
      AttentionLayout layout{.batches = 1, .heads = 2, .queries = queries, .keys = 9, .depth = 8};
      layout.columns = 8;
      CHECK(std::ranges::find(sources, library_source(plan_attention(layout, target), target)) !=
            sources.end());
    }
  }
  CHECK_FALSE(has_attention(resolve_target("x86-64-v3")));
  // Kernels for a list of instruction sets run one plan.
  CHECK(has_attention(resolve_target("neon")) == has_attention(resolve_target("sve")));
}

TEST_CASE("a shared kernel is a unit that says nothing of its model", "[codegen][library]") {
  const std::string text = "extern \"C\" void KILN_KERNEL(void* const*, const long long*) {}";
  const KernelSource own{.source = text + "//", .comment = "aten.relu.default"};
  const KernelSource shared{
      .source = text, .comment = "aten.convolution.default", .shape_generic = true};

  const KernelUnits units = group_kernels(std::vector{own, shared, own, shared}, Target{});

  CHECK(units.distinct == 2);
  REQUIRE(units.units.size() == 2);
  const auto found = std::ranges::find_if(units.units, &Unit::shared);
  REQUIRE(found != units.units.end());
  CHECK_THAT(found->source, !kiln::testing::contains("convolution"));
  CHECK_THAT(found->source, kiln::testing::contains(units.names[1]));
}

TEST_CASE("what is compiled beforehand is found by all that makes it", "[codegen][library]") {
  const TemporaryDirectory directory;
  const Options options;
  const Compiler& compiler = find_compiler(options.compiler, options.compiler_timeout);
  const std::string text = "extern \"C\" void KILN_KERNEL(void* const*, const long long*) {}";
  BuildPlan plan;
  plan.units =
      group_kernels(std::vector<KernelSource>{{.source = text, .shape_generic = true}}, Target{})
          .units;
  plan.directory = directory.path() / "work";
  plan.ready = precompiled_kernels_beside(directory.path() / "libkiln-container.a");
  std::filesystem::create_directories(plan.directory);
  std::filesystem::create_directories(plan.ready);
  REQUIRE(plan.units.size() == 1);
  Unit& unit = plan.units[0];
  const std::string name = object_key(compiler, unit).hex() + ".o";
  const auto reused = [&] {
    remove_tree(plan.directory / (unit.name + ".o"));
    return compile_units(compiler, plan, options).objects_reused;
  };

  CHECK(reused() == 0);
  write_file_atomically(plan.ready / name, read_file(plan.directory / (unit.name + ".o")));
  CHECK(reused() == 1);
  unit.machine = "avx9000";
  CHECK(reused() == 0);
  unit.machine.clear();
  unit.flags.emplace_back("-g");
  CHECK(reused() == 0);
  unit.flags.pop_back();
  unit.shared = false;
  CHECK(reused() == 0);
}

}  // namespace
}  // namespace kiln::codegen

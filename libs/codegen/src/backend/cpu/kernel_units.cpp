#include "backend/cpu/kernel_units.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "backend/cpu/library/library.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "kiln/base/digest.hpp"
#include "text/source_text.hpp"
#include "toolchain/compile_flags.hpp"

namespace kiln::codegen {
namespace {

std::size_t bytes_per_unit(std::span<const KernelSource> kernels, const UnitTuning& tuning) {
  std::size_t total = 0;
  for (const KernelSource& kernel : kernels) {
    total += kernel.source.size();
  }
  return std::clamp(total / tuning.many, tuning.bytes, tuning.max_bytes);
}

constexpr std::string_view kNameMark = "KILN_KERNEL";

std::vector<std::string> kernel_flags(const Target& target, bool is_hot) {
  std::vector<std::string> flags = common_compile_flags();
  flags.insert(flags.end(),
               {is_hot ? "-O3" : "-O1",
                "-ffp-contract=fast",
                "-fno-math-errno",
                "-fno-trapping-math",
                "-fwrapv",  // Integers are ATen's, which wrap.
                "-fopenmp"});
  std::istringstream words(target.compiler_flags);
  for (std::string word; words >> word;) {
    flags.push_back(word);
  }
  return flags;
}

}  // namespace

KernelUnits group_kernels(std::span<const KernelSource> kernels,
                          const Target& target,
                          const std::string& mark,
                          std::size_t hot_count) {
  KernelUnits result;
  const std::size_t most = bytes_per_unit(kernels, tuning_of(target).units);
  std::set<std::string> known;
  std::string group;
  const auto add_unit = [&](std::string source, bool shared) {
    const bool is_hot = result.names.size() <= hot_count;
    result.units.push_back({.name = "kernels" + mark + std::to_string(result.units.size()),
                            .source = std::move(source),
                            .flags = kernel_flags(target, is_hot),
                            .machine = target.cpu_features,
                            .vectorized = is_hot,
                            .shared = shared});
  };
  const auto flush = [&] {
    if (!group.empty()) {
      add_unit(std::move(group), false);
      group.clear();
    }
  };
  for (const KernelSource& kernel : kernels) {
    if (result.names.size() == hot_count) {
      flush();
    }
    const std::string name = "kiln_" + digest(kernel.source).hex().substr(0, 16) + mark;
    const bool is_new = known.insert(name).second;
    if (is_new && !kernel.shape_generic && group.size() + kernel.source.size() > most) {
      flush();
    }
    result.names.push_back(name);
    if (!is_new) {
      continue;
    }
    if (kernel.shape_generic) {
      add_unit(replace_all(kernel.source, kNameMark, name), true);
      continue;
    }
    // A namespace of its own: kernels may bring helpers of the same name.
    group += "// " + comment_line(kernel.comment) + "\nnamespace " + name + "_space {\n" +
             replace_all(kernel.source, kNameMark, name) + "\n}\n\n";
  }
  flush();
  result.distinct = static_cast<int>(known.size());
  return result;
}

std::vector<Unit> shape_generic_units(const Target& target) {
  std::vector<KernelSource> kernels;
  for (std::string& source : library_sources(target)) {
    kernels.push_back({.source = std::move(source), .shape_generic = true});
  }
  return group_kernels(kernels, target).units;
}

}  // namespace kiln::codegen

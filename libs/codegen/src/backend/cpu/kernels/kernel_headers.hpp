// The headers that kernels stand on (kernels/*.hpp), as text.
//
// A kernel includes nothing, so that it compiles in a fraction of a second: it carries those
// paragraphs of the headers that it uses. A paragraph is what stands between two blank lines, and
// is known by the first name that it defines.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::codegen {

/// A file of kernels/, embedded when Kiln is built.
struct KernelHeader {
  std::string_view name;  ///< Without ending: "math_f32".
  std::string_view text;
};

/// What kernels use, each header after those it includes.
[[nodiscard]] std::span<const KernelHeader> kernel_headers();
/// Kernels written by hand, one each; their entry is called KILN_KERNEL.
[[nodiscard]] std::span<const KernelHeader> hand_written_kernels();

/// A paragraph of a header.
struct HeaderParagraph {
  std::string_view name;  ///< What it defines: a function, a type, a constant or a macro.
  std::string_view text;
};

/// The paragraphs of `header`. Left out are what only editors and tests need: includes, the
/// namespace, default values of macros; and comments by themselves.
[[nodiscard]] std::vector<HeaderParagraph> paragraphs_of(const KernelHeader& header);

/// `kernel` after everything that it uses of the headers, in vectors of `lanes` floats.
[[nodiscard]] std::string with_kernel_headers(std::string_view kernel, int lanes);

/// A macro that specializes a hand-written kernel.
struct KernelConstant {
  std::string_view name;
  long long value = 0;
};

/// The hand-written kernel `name`, in the form of `KernelSource::source`.
[[nodiscard]] std::string hand_written_kernel(std::string_view name,
                                              int lanes,
                                              std::span<const KernelConstant> constants);

}  // namespace kiln::codegen

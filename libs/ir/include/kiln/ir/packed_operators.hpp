// Operators whose second operand is packed: what a backend makes of products and convolutions with
// constant weights that it has kernels for.
//
// They are not in libtorch. Graphs that are compiled have them once they are prepared; the
// interpreter knows them, too.

#pragma once

#include <string_view>

namespace kiln::ir {

/// `(lhs, panels, added) -> result`: lhs[m, k] times a matrix [k, panels * width] that is packed as
/// [panels, k, width]. A row or a matrix may be added; it is `none` if nothing is.
inline constexpr std::string_view kPackedMm = "kiln.packed_mm.default";

/// `(image, panels, bias, stride, padding, dilation) -> result`: a convolution of an image of two
/// dims, without groups, by a weight [panels * width, channels, rows, columns] that is packed as
/// [panels, rows, columns, channels, width]. The bias may be `none`.
inline constexpr std::string_view kPackedConvolution = "kiln.packed_convolution.default";

}  // namespace kiln::ir

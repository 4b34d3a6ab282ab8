// The run-time arguments of convolutions.

#pragma once

namespace kiln::codegen {

// Images are channels-last; steps are in elements. The work is cut into `blocks` of pixels by
// `panel_groups` of panels; a task is one of each.
struct __attribute__((may_alias)) ConvolutionParams {
  long long images, channels, panels;
  long long height, width, result_height, result_width, kernel_height, kernel_width;
  long long stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  long long image_step, row_step, pixel_step;
  long long blocks, panel_groups, is_parallel;
};

// Those of Winograd's algorithm: the tiles of a block are transformed together, by each of at most
// `threads` threads in a workspace of its own.
struct __attribute__((may_alias)) WinogradParams {
  ConvolutionParams convolution;
  long long block_tiles, threads, workspace;
};

}  // namespace kiln::codegen

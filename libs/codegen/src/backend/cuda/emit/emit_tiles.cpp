// Square tiles of the middle and the inner loop, for loads that are contiguous along the middle
// one.

#include <algorithm>
#include <string>

#include "backend/cuda/emit/nest_emitter.hpp"

namespace kiln::codegen::cuda {

// The three channels of an image do not: most threads of a tile would be idle.
bool NestEmitter::fills_tiles() const {
  const std::int64_t least = kTuning.blocks.min_tiled_extent;
  return nest_.extents[kMiddle].constant().value_or(least) >= least &&
         nest_.extents[kInner].constant().value_or(least) >= least;
}

// The side of a tile, such that the tiles of all transposed loads fit in shared memory. A smaller
// one than 16 has fewer elements than a block has threads.
int NestEmitter::choose_side() const {
  std::int64_t smallest = 8, bytes = 0;  // Of one element of each tile.
  for (const ScalarId load : nest_.transposed_loads) {
    const ir::DType dtype = text_.dtype(static_cast<std::uint32_t>(text_.scalar(load).integer));
    smallest = std::min<std::int64_t>(smallest, ir::size_of(dtype));
    bytes += ir::size_of(dtype);
  }
  int side = smallest < 4 ? 64 : 32;
  while (side > 16 && bytes * side * (side + 1) > kTuning.blocks.shared_bytes) {
    side /= 2;
  }
  return side;
}

// Runs `body` for each of a thread's rows of a tile. The rows are independent: if all tiles are
// whole, they are read without a condition, and all loads are issued at once.
void NestEmitter::for_each_tile_row(int side,
                                    const std::string& position,
                                    const std::function<void()>& body) {
  const auto is_whole = [&](int variable) {
    return divides(side, nest_.extents[static_cast<std::size_t>(variable)]);
  };
  body_.directive("#pragma unroll");
  const CodeWriter::Scope loop =
      body_.scope("for (int v = 0; v < $; ++v)", side * side / block_.width);
  body_.line("const int r = threadIdx.y + v * $;", block_.width / side);
  body_.line(position);
  {
    const CodeWriter::Scope block =
        body_.scope(is_whole(kMiddle) && is_whole(kInner)
                        ? ""
                        : "if (m < " + extent(kMiddle) + " && j < " + extent(kInner) + ")");
    body();
  }
}

void NestEmitter::emit_tiles() {
  block_ = {};
  const int side = choose_side();
  const std::string length = std::to_string(side);
  open_kernel("tiles", block_.width);
  for (std::size_t i = 0; i < nest_.transposed_loads.size(); ++i) {
    const auto operand =
        static_cast<std::uint32_t>(text_.scalar(nest_.transposed_loads[i]).integer);
    body_.line(
        "__shared__ $ tile$[$][$ + 1];", memory_type(text_.dtype(operand)), i, length, length);
  }
  const std::string across = code("(($ + $ - 1) / $)", extent(kInner), length, length);
  const std::string down = code("(($ + $ - 1) / $)", extent(kMiddle), length, length);
  body_.line("const Int q = (Int)blockIdx.x / $, o = q / $;", across, down);
  body_.line(
      "const Int m0 = q % $ * $, j0 = (Int)blockIdx.x % $ * $;", down, length, across, length);
  for_each_tile_row(side, "const Int m = m0 + threadIdx.x, j = j0 + r;", [&] {
    for (std::size_t i = 0; i < nest_.transposed_loads.size(); ++i) {
      const Scalar& load = text_.scalar(nest_.transposed_loads[i]);
      ScalarWriter outside(text_);
      const std::string address = outside.index(load.indices[0]);
      body_.line("tile$[r][threadIdx.x] = $[$];",
                 i,
                 text_.operand(static_cast<std::uint32_t>(load.integer)),
                 address);
    }
  });
  body_.line("__syncthreads();");

  ScalarWriter element(text_);
  for (std::size_t i = 0; i < nest_.transposed_loads.size(); ++i) {
    element.set(nest_.transposed_loads[i], "value(tile" + std::to_string(i) + "[threadIdx.x][r])");
  }
  const std::string position = "const Int m = m0 + r, j = j0 + threadIdx.x;";
  if (text_.checks_indices) {
    for_each_tile_row(side, position, [&] {
      body_.line("bool ok = true;");
      write_stores({}, element);
      report_bad_index();
    });
  } else {
    // A store may be to what the next row loads, for all that the compiler knows.
    block_.vector = side * side / block_.width;
    is_flat_ = true;
    declare_stored({});
    for_each_tile_row(side, position, [&] { write_stores({}, element); });
    for_each_tile_row(side, position, [&] {
      for (std::size_t i = 0; i < nest_.stores.size(); ++i) {
        ScalarWriter writer(text_);
        const std::string address = writer.index(nest_.stores[i].address);
        body_.line("$[$] = y$[v];", text_.operand(nest_.stores[i].operand), address, i);
      }
    });
    is_flat_ = false;
  }
  body_.close();
  add_launch("tiles",
             "(long long)" + across + " * " + down + " * " + extent(kOuter),
             "1",
             side,
             block_.width / side);
}

}  // namespace kiln::codegen::cuda

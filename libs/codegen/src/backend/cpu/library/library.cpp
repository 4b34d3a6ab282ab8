#include "backend/cpu/library/library.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/library/plan_convolution.hpp"
#include "backend/cpu/packed_gemm.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

using Constants = std::span<const std::int64_t>;

struct LibraryEntry {
  std::string_view operation;
  std::string (*source)(Constants constants, const Target& target);
};
constexpr std::array<LibraryEntry, 4> kLibrary = {
    {{"packed_gemm", packed_gemm_source},
     {"packed_convolution", packed_convolution_source},
     {"winograd_convolution", winograd_source},
     {"attention", attention_source}}};

void add_convolutions(const Target& target, bool adds, std::vector<LibraryCall>& calls) {
  const std::int64_t width = target.panel_width;
  // A tile has as many pixels as there are, and those of large images have the most.
  for (std::int64_t pixels = kMinTilePixels; pixels <= max_tile_pixels(width, target); ++pixels) {
    calls.push_back(
        {.operation = "packed_convolution", .constants = {width, pixels, adds ? 1 : 0}});
  }
  for (const std::int64_t channels : {std::int64_t{4}, std::int64_t{target.vector_bytes / 4}}) {
    calls.push_back(
        {.operation = "winograd_convolution", .constants = {width, adds ? 1 : 0, channels}});
  }
}

}  // namespace

std::string library_source(const LibraryCall& call, const Target& target) {
  for (const LibraryEntry& entry : kLibrary) {
    if (entry.operation == call.operation) {
      return entry.source(call.constants, target);
    }
  }
  throw Error(ErrorCode::kInternal, "the CPU has no kernel \"" + call.operation + "\"");
}

std::vector<std::string> library_sources(const Target& target) {
  std::vector<LibraryCall> calls;
  if (target.panel_width > 0) {
    add_convolutions(target, false, calls);
    add_convolutions(target, true, calls);
    calls.push_back({.operation = "packed_gemm", .constants = {target.panel_width}});
  }
  for (std::vector<std::int64_t>& constants : attention_constants(target)) {
    calls.push_back({.operation = "attention", .constants = std::move(constants)});
  }
  std::vector<std::string> sources;
  for (const LibraryCall& call : calls) {
    sources.push_back(library_source(call, target));
  }
  return sources;
}

}  // namespace kiln::codegen

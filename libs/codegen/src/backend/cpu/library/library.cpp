#include "backend/cpu/library/library.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/library/argument_fields.hpp"
#include "backend/cpu/library/plan_convolution.hpp"
#include "backend/cpu/match/attention.hpp"
#include "backend/cpu/match/packed_gemm.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

using Constants = std::span<const std::int64_t>;

struct LibraryEntry {
  std::string_view operation;
  std::string (*source)(Constants constants, const Target& target);
  std::string_view params;  ///< The struct of its run-time arguments.
};
constexpr std::array<LibraryEntry, 4> kLibrary = {
    {{"packed_gemm", packed_gemm_source, "GemmParams"},
     {"packed_convolution", packed_convolution_source, "ConvolutionParams"},
     {"winograd_convolution", winograd_source, "WinogradParams"},
     {"attention", attention_source, "AttentionParams"}}};

const LibraryEntry& entry_of(const LibraryCall& call) {
  const auto found = std::ranges::find(kLibrary, call.operation, &LibraryEntry::operation);
  if (found == kLibrary.end()) {
    throw Error(ErrorCode::kInternal, "the CPU has no kernel \"" + call.operation + "\"");
  }
  return *found;
}

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
  return entry_of(call).source(call.constants, target);
}

std::span<const LibraryField> argument_fields_of(const LibraryCall& call) {
  return argument_fields(entry_of(call).params);
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

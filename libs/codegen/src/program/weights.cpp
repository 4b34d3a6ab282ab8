#include "program/weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kPage = 4096;
// The container's word for a constant that is not among the weights.
constexpr std::uint64_t kNowhere = UINT64_MAX;

// The container's KilnWeightsTrailer.
struct Trailer {
  std::array<char, 16> magic = {"kiln weights 1\n"};
  std::uint64_t weights_bytes = 0;
  std::array<char, 40> reserved = {};
};

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct Layout {
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
};

Layout lay_out(std::span<const ConstantData> constants) {
  Layout layout;
  std::map<std::pair<const std::byte*, std::size_t>, std::uint64_t> known;
  for (const ConstantData& constant : constants) {
    const std::size_t size = constant.bytes.size();
    const auto [entry, is_new] = known.try_emplace({constant.bytes.data(), size}, layout.bytes);
    layout.offsets.push_back(entry->second);
    layout.bytes += is_new ? round_up(size, kAlignment) : 0;
  }
  return layout;
}

}  // namespace

void place_constants(const Program& program,
                     std::span<const ConstantData> data,
                     bool store_folded,
                     ModelDescription* description) {
  const std::size_t given = program.constants.size() - description->folded;
  if (data.size() != given) {
    throw Error(ErrorCode::kInvalidArgument,
                "the graph has " + std::to_string(given) + " constants, but the bytes of " +
                    std::to_string(data.size()) + " were given");
  }
  Layout layout = lay_out(data);
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    const Port& port = program.constants[i];
    const ir::TensorMeta& meta = program.graph->tensor(port.value);
    const auto expected = extent_bytes(meta.sizes, meta.strides, meta.dtype).constant();
    if (i >= given) {
      const auto bytes = static_cast<std::uint64_t>(expected.value());
      description->constants.push_back({store_folded ? layout.bytes : kNowhere, bytes});
      layout.bytes += store_folded ? round_up(bytes, kAlignment) : 0;
      continue;
    }
    if (!expected || static_cast<std::uint64_t>(*expected) != data[i].bytes.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "constant " + port.name + " has " + std::to_string(data[i].bytes.size()) +
                      " bytes where its shape needs " + std::to_string(expected.value_or(-1)));
    }
    description->constants.push_back({layout.offsets[i], data[i].bytes.size()});
  }
  description->weights_bytes = layout.bytes;
}

std::vector<std::uint64_t> weight_offsets(std::span<const ConstantData> constants) {
  return lay_out(constants).offsets;
}

WeightsImage::WeightsImage(std::uint64_t code_bytes,
                           std::span<const ConstantData> constants,
                           std::span<const ConstantData> folded) {
  const Layout layout = lay_out(constants);
  std::uint64_t all_bytes = layout.bytes;
  for (const ConstantData& constant : folded) {
    all_bytes += round_up(constant.bytes.size(), kAlignment);
  }
  if (all_bytes == 0) {
    return;
  }
  static constexpr std::array<std::byte, kPage> kZeros = {};
  const auto pad = [&](std::uint64_t bytes, std::uint64_t alignment) {
    parts_.push_back(std::span(kZeros).first(round_up(bytes, alignment) - bytes));
  };
  const auto place = [&](const ConstantData& constant) {
    parts_.push_back(constant.bytes);
    pad(constant.bytes.size(), kAlignment);
  };
  // On pages of their own, so that what is never written stays shared among processes.
  pad(code_bytes, kPage);
  constants_begin_ = parts_.size();
  std::uint64_t placed = 0;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (layout.offsets[i] != placed) {
      continue;  // Shares its place with an earlier one.
    }
    place(constants[i]);
    placed += round_up(constants[i].bytes.size(), kAlignment);
  }
  constants_end_ = parts_.size();
  std::ranges::for_each(folded, place);
  const Trailer trailer{.weights_bytes = all_bytes};
  const auto bytes = std::as_bytes(std::span(&trailer, 1));
  trailer_.assign(bytes.begin(), bytes.end());
  parts_.emplace_back(trailer_);
}

void append_weights(const std::filesystem::path& library,
                    std::span<const ConstantData> constants,
                    std::span<const ConstantData> folded) {
  std::error_code failure;
  const std::uint64_t code_bytes = std::filesystem::file_size(library, failure);
  const WeightsImage image(code_bytes, constants, folded);
  std::ofstream file(library, std::ios::binary | std::ios::app);
  for (const std::span<const std::byte>& part : image.parts()) {
    file.write(reinterpret_cast<const char*>(part.data()),
               static_cast<std::streamsize>(part.size()));
  }
  file.close();
  if (failure || !file) {
    throw Error(ErrorCode::kIo, "cannot write the weights to " + library.string());
  }
}

}  // namespace kiln::codegen

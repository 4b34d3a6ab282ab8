#include "weights.hpp"

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

std::uint64_t aligned(std::uint64_t bytes, std::uint64_t alignment) {
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
    layout.bytes += is_new ? aligned(size, kAlignment) : 0;
  }
  return layout;
}

void pad(std::ofstream& file, std::uint64_t bytes) {
  static constexpr std::array<char, kPage> kZeros = {};
  file.write(kZeros.data(), static_cast<std::streamsize>(bytes));
}

}  // namespace

void place_constants(const Program& program,
                     std::span<const ConstantData> data,
                     ModelDescription* description) {
  const std::size_t given = program.constants.size() - description->folded;
  if (data.size() != given) {
    throw Error(ErrorCode::kInvalidArgument,
                "the graph has " + std::to_string(given) +
                    " constants, but the bytes of " + std::to_string(data.size()) + " were given");
  }
  const Layout layout = lay_out(data);
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    const Port& port = program.constants[i];
    const ir::TensorMeta& meta = program.graph->tensor(port.value);
    const auto expected = extent_bytes(meta.sizes, meta.strides, meta.dtype).constant();
    if (i >= given) {
      description->constants.push_back({kNowhere, static_cast<std::uint64_t>(expected.value())});
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

void append_weights(const std::filesystem::path& library, std::span<const ConstantData> constants) {
  const Layout layout = lay_out(constants);
  if (layout.bytes == 0) {
    return;
  }
  std::error_code failure;
  const std::uint64_t code_bytes = std::filesystem::file_size(library, failure);
  std::ofstream file(library, std::ios::binary | std::ios::app);
  // On pages of their own, so that what is never written stays shared among processes.
  pad(file, aligned(code_bytes, kPage) - code_bytes);
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (layout.offsets[i] != written) {
      continue;  // Shares its place with an earlier one.
    }
    const std::span<const std::byte> bytes = constants[i].bytes;
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    pad(file, aligned(bytes.size(), kAlignment) - bytes.size());
    written += aligned(bytes.size(), kAlignment);
  }
  const Trailer trailer{.weights_bytes = layout.bytes};
  file.write(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  file.close();
  if (failure || !file) {
    throw Error(ErrorCode::kIo, "cannot write the weights to " + library.string());
  }
}

}  // namespace kiln::codegen

#include "weights.hpp"

#include <fstream>
#include <string>

#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

constexpr std::uint64_t kAlignment = 64;

}  // namespace

void place_constants(const Program& program,
                     std::span<const ConstantData> data,
                     ModelDescription* description) {
  if (data.size() != program.constants.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the graph has " + std::to_string(program.constants.size()) +
                    " constants, but the bytes of " + std::to_string(data.size()) + " were given");
  }
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Port& port = program.constants[i];
    const ir::TensorMeta& meta = program.graph->tensor(port.value);
    const auto expected = extent_bytes(meta.sizes, meta.strides, meta.dtype).constant();
    if (!expected || static_cast<std::uint64_t>(*expected) != data[i].bytes.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "constant " + port.name + " has " + std::to_string(data[i].bytes.size()) +
                      " bytes where its shape needs " + std::to_string(expected.value_or(-1)));
    }
    description->constants.push_back({offset, data[i].bytes.size()});
    offset += (data[i].bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  description->weights_bytes = offset;
}

std::filesystem::path write_weights(const ModelDescription& description,
                                    std::span<const ConstantData> data,
                                    const std::filesystem::path& directory) {
  const std::filesystem::path blob = directory / "weights.bin";
  std::ofstream bytes(blob, std::ios::binary);
  for (const ConstantData& constant : data) {
    const std::size_t size = constant.bytes.size();
    bytes.write(reinterpret_cast<const char*>(constant.bytes.data()),
                static_cast<std::streamsize>(size));
    static constexpr char kZeros[kAlignment] = {};
    bytes.write(kZeros,
                static_cast<std::streamsize>((kAlignment - size % kAlignment) % kAlignment));
  }
  bytes.close();

  const std::filesystem::path source = directory / "weights.s";
  std::ofstream text(source);
  // Writable, so that the loader maps it privately; on pages of its own, so that what is never
  // written stays shared among processes.
  text << ".section .kiln_weights,\"aw\",%progbits\n"
       << ".balign 4096\n"
       << ".globl " << kWeightsSymbol << "\n.hidden " << kWeightsSymbol << "\n"
       << kWeightsSymbol << ":\n.incbin " << quoted(blob.string()) << "\n.balign 4096\n"
       << ".size " << kWeightsSymbol << ", " << description.weights_bytes << "\n"
       << ".section .note.GNU-stack,\"\",%progbits\n";
  text.close();
  if (!bytes || !text) {
    throw Error(ErrorCode::kIo, "cannot write the weights to " + directory.string());
  }
  return source;
}

}  // namespace kiln::codegen

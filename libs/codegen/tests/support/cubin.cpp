#include "support/cubin.hpp"

#include <elf.h>

#include <cstring>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln::codegen::testing {
namespace {

template <class T>
T read(const std::string& bytes, std::size_t offset) {
  ensure(offset + sizeof(T) <= bytes.size(), "the cubin is truncated");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string name_at(const std::string& cubin, const Elf64_Shdr& names, std::size_t offset) {
  return cubin.c_str() + names.sh_offset + offset;
}

}  // namespace

std::map<std::string, std::uint32_t> stack_frames(const std::string& cubin) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  std::vector<Elf64_Shdr> sections;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    sections.push_back(read<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr)));
  }
  const Elf64_Shdr *info = nullptr, *symbols = nullptr;
  for (const Elf64_Shdr& section : sections) {
    if (name_at(cubin, sections.at(header.e_shstrndx), section.sh_name) == ".nv.info") {
      info = &section;
    } else if (section.sh_type == SHT_SYMTAB) {
      symbols = &section;
    }
  }
  ensure(info != nullptr && symbols != nullptr, "the cubin says nothing of its kernels");

  // Attributes: how their value is stored, which one, and its size or itself.
  constexpr std::uint8_t kSized = 4, kFrameSize = 0x11;
  std::map<std::string, std::uint32_t> frames;
  for (std::size_t at = info->sh_offset; at < info->sh_offset + info->sh_size;) {
    const auto format = read<std::uint8_t>(cubin, at),
               attribute = read<std::uint8_t>(cubin, at + 1);
    const auto size = read<std::uint16_t>(cubin, at + 2);
    at += 4;
    if (format != kSized) {
      continue;
    }
    if (attribute == kFrameSize) {
      const auto symbol = read<Elf64_Sym>(
          cubin, symbols->sh_offset + read<std::uint32_t>(cubin, at) * sizeof(Elf64_Sym));
      frames[name_at(cubin, sections.at(symbols->sh_link), symbol.st_name)] =
          read<std::uint32_t>(cubin, at + 4);
    }
    at += size;
  }
  return frames;
}

void check_rows_are_in_registers(const std::string& source, const std::string& cubin) {
  for (const auto& [name, bytes] : stack_frames(cubin)) {
    if (name.ends_with("_rows") && bytes != 0) {
      throw Error(ErrorCode::kInternal,
                  name + " has " + std::to_string(bytes) + " bytes of local memory:\n" +
                      source.substr(source.find(name)).substr(0, 4000));
    }
  }
}

}  // namespace kiln::codegen::testing

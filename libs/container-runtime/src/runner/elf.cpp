#include "elf.hpp"

#include <elf.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t kMachine = EM_PPC64;
#else
#error "the machine number of this architecture's ELF files goes here"
#endif

constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "POWER";
    default: return "machine " + std::to_string(machine);
  }
}

[[noreturn]] void fail(ErrorCode code, const std::filesystem::path& path, const std::string& why) {
  throw Error(code, path.string() + " " + why);
}

bool is_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t file_bytes) {
  return offset <= file_bytes && bytes <= file_bytes - offset;
}

}  // namespace

void require_loadable(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code failure;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, failure);
  if (!file || failure) {
    fail(ErrorCode::kIo, path, "cannot be read");
  }
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    fail(ErrorCode::kCorrupt, path, "is not a shared library");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kByteOrder ||
      header.e_machine != kMachine) {
    fail(ErrorCode::kIncompatible,
         path,
         "was compiled for " + machine_name(header.e_machine) + ", this machine is " +
             machine_name(kMachine));
  }
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr)) {
    fail(ErrorCode::kCorrupt, path, "is not a shared library");
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  bool is_whole = static_cast<bool>(
      file.read(reinterpret_cast<char*>(segments.data()),
                static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr))));
  for (const Elf64_Phdr& segment : segments) {
    is_whole = is_whole && (segment.p_type != PT_LOAD ||
                            is_within(segment.p_offset, segment.p_filesz, file_bytes));
  }
  // The section table comes last in what linkers write; a stripped file may have none.
  is_whole =
      is_whole &&
      is_within(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize, file_bytes);
  if (!is_whole) {
    fail(ErrorCode::kCorrupt, path, "is truncated");
  }
}

}  // namespace kiln::container_runtime

#include "npy.hpp"

#include <ATen/Functions.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"

namespace kiln::tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// The header, a Python dict literal, and the elements behind it.
struct Npy {
  std::string_view header;
  std::string_view elements;
};

[[noreturn]] void refuse_npy(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::kCorrupt, path.string() + " " + problem);
}

Npy divide(const std::filesystem::path& path, std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    refuse_npy(path, "is not a .npy file");
  }
  // The version has two bytes, and the length of the header two or, from version 2 on, four.
  constexpr std::size_t kLengthAt = kMagic.size() + 2;
  const std::size_t width = bytes.size() > kMagic.size() && bytes[kMagic.size()] >= 2 ? 4 : 2;
  std::uint32_t length = 0;
  if (bytes.size() < kLengthAt + width) {
    refuse_npy(path, "is truncated");
  }
  std::memcpy(&length, bytes.data() + kLengthAt, width);
  const std::string_view rest = bytes.substr(kLengthAt + width);
  if (rest.size() < length) {
    refuse_npy(path, "is truncated");
  }
  return {rest.substr(0, length), rest.substr(length)};
}

// The value of `key`; of a tuple what is between the parentheses.
std::string_view header_field(const std::filesystem::path& path,
                              std::string_view header,
                              const std::string& key) {
  const std::string quoted_key = "'" + key + "':";
  const std::size_t at = header.find(quoted_key);
  const std::size_t start =
      at == std::string_view::npos ? at : header.find_first_not_of(' ', at + quoted_key.size());
  if (start == std::string_view::npos) {
    refuse_npy(path, "has no '" + key + "' in its header");
  }
  const bool is_tuple = header[start] == '(';
  const std::size_t end = header.find_first_of(is_tuple ? ")" : ",}", start);
  if (end == std::string_view::npos) {
    refuse_npy(path, "has a header that breaks off in '" + key + "'");
  }
  const std::size_t begin = start + (is_tuple ? 1 : 0);
  return header.substr(begin, end - begin);
}

// "3, 4" or "3,"
std::vector<std::int64_t> parse_shape(const std::filesystem::path& path, std::string_view shape) {
  std::vector<std::int64_t> sizes;
  for (std::size_t at = shape.find_first_not_of(", "); at != std::string_view::npos;
       at = shape.find_first_not_of(", ", at)) {
    std::int64_t size = -1;
    const char* const end = shape.data() + shape.size();
    const auto [stop, problem] = std::from_chars(shape.data() + at, end, size);
    if (problem != std::errc() || size < 0) {
      refuse_npy(path, "has a shape that cannot be read: (" + std::string(shape) + ")");
    }
    sizes.push_back(size);
    at = static_cast<std::size_t>(stop - shape.data());
  }
  return sizes;
}

// Before memory is allocated for it: a damaged shape may be of any size.
void require_elements(const std::filesystem::path& path,
                      const std::vector<std::int64_t>& sizes,
                      std::int64_t available) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (size != 0 && count > available / size) {
      refuse_npy(path, "is truncated: it has fewer elements than its shape says");
    }
    count *= size;
  }
  if (count > available) {
    refuse_npy(path, "is truncated: it has fewer elements than its shape says");
  }
}

}  // namespace

at::Tensor read_npy(const std::filesystem::path& path) {
  static const std::map<std::string_view, at::ScalarType> kTypes = {{"'<f4'", at::kFloat},
                                                                    {"'<f8'", at::kDouble},
                                                                    {"'<f2'", at::kHalf},
                                                                    {"'<i8'", at::kLong},
                                                                    {"'<i4'", at::kInt},
                                                                    {"'<i2'", at::kShort},
                                                                    {"'|i1'", at::kChar},
                                                                    {"'|u1'", at::kByte},
                                                                    {"'|b1'", at::kBool}};
  const std::string bytes = read_file(path);
  const Npy file = divide(path, bytes);
  const std::string_view descr = header_field(path, file.header, "descr");
  const auto type = kTypes.find(descr);
  if (type == kTypes.end()) {
    throw Error(ErrorCode::kUnsupported,
                path.string() + " has elements of type " + std::string(descr) +
                    ", which cannot be read; save it with another dtype");
  }
  if (header_field(path, file.header, "fortran_order").starts_with("True")) {
    throw Error(ErrorCode::kUnsupported,
                path.string() + " is in Fortran's order; save numpy.ascontiguousarray of it");
  }
  const std::vector<std::int64_t> sizes =
      parse_shape(path, header_field(path, file.header, "shape"));
  const std::size_t available = file.elements.size() / c10::elementSize(type->second);
  require_elements(path, sizes, static_cast<std::int64_t>(available));
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(type->second));
  if (tensor.nbytes() != 0) {
    std::memcpy(tensor.mutable_data_ptr(), file.elements.data(), tensor.nbytes());
  }
  return tensor;
}

}  // namespace kiln::tool

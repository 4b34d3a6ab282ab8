#include "sealed_value.hpp"

#include <memory>
#include <new>

#include "blob_file.hpp"
#include "seal.hpp"

namespace kiln::autograd_cache {

std::string value_name(ValueKind kind, const Digest& key) {
  const char* kinds[] = {"variants", "files", "objects"};
  return std::string("1:") + kinds[static_cast<int>(kind)] + ":" + key.hex();
}

std::string seal_value(ValueKind kind,
                       const Digest& key,
                       std::span<const std::byte> bytes,
                       std::string_view secret) {
  return seal(value_name(kind, key), encode_blob(key, bytes, Compression::kWhereItPays), secret);
}

std::optional<MappedBlob> open_value(ValueKind kind,
                                     const Digest& key,
                                     std::string_view sealed,
                                     std::string_view secret) {
  const auto bytes = unseal(value_name(kind, key), sealed, secret);
  if (!bytes) {
    return std::nullopt;
  }
  try {
    const auto copy = std::make_shared<std::string>(*bytes);
    return decode_blob(key, MappedBlob(copy, std::as_bytes(std::span(*copy))));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

}  // namespace kiln::autograd_cache

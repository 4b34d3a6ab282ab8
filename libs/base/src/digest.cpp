#include "kiln/base/digest.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <new>

#include "kiln/base/error.hpp"

namespace kiln {

namespace {

constexpr char kHexadecimal[] = "0123456789abcdef";

std::optional<std::uint8_t> hexadecimal_value(char character) {
  if (character >= '0' && character <= '9') {
    return static_cast<std::uint8_t>(character - '0');
  }
  if (character >= 'a' && character <= 'f') {
    return static_cast<std::uint8_t>(character - 'a' + 10);
  }
  if (character >= 'A' && character <= 'F') {
    return static_cast<std::uint8_t>(character - 'A' + 10);
  }
  return std::nullopt;
}

}  // namespace

std::string Digest::hex() const {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kHexadecimal[byte >> 4];
    text += kHexadecimal[byte & 15];
  }
  return text;
}

std::optional<Digest> Digest::parse(std::string_view text) {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const auto high = hexadecimal_value(text[2 * i]);
    const auto low = hexadecimal_value(text[2 * i + 1]);
    if (!high || !low) {
      return std::nullopt;
    }
    digest.bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return digest;
}

struct Hasher::State {
  State() {
    // Statics of a program may compute digests when they are destroyed, after OpenSSL's own handler
    // at exit would have run.
    static const int is_kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    ensure(is_kept == 1, "OpenSSL starts");
    context = EVP_MD_CTX_new();
    if (context == nullptr) {
      throw std::bad_alloc();
    }
    restart();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void restart() {
    ensure(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1, "OpenSSL has SHA-256");
  }

  EVP_MD_CTX* context = nullptr;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::update(std::string_view bytes) {
  return update(std::as_bytes(std::span(bytes)));
}

Hasher& Hasher::update(std::span<const std::byte> bytes) {
  ensure(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "SHA-256 goes on");
  return *this;
}

Digest Hasher::finish() {
  Digest digest;
  ensure(EVP_DigestFinal_ex(state_->context, digest.bytes.data(), nullptr) == 1, "SHA-256 ends");
  state_->restart();
  return digest;
}

Digest digest(std::string_view bytes) {
  return Hasher().update(bytes).finish();
}

Digest digest(std::span<const std::byte> bytes) {
  return Hasher().update(bytes).finish();
}

}  // namespace kiln

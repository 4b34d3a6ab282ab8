#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "transport.hpp"

namespace kiln::autograd_cache {

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::array<char, 256> reason{};
  const unsigned long code = ::ERR_get_error();
  ::ERR_error_string_n(code, reason.data(), reason.size());
  ::ERR_clear_error();
  throw Error(ErrorCode::kIo, code == 0 ? what : what + ": " + reason.data());
}

struct Free {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  void operator()(SSL* session) const { ::SSL_free(session); }
};

using Context = std::unique_ptr<SSL_CTX, Free>;

Context make_context(const RedisOptions& options) {
  Context context(::SSL_CTX_new(::TLS_client_method()));
  if (!context) {
    fail("TLS cannot be set up");
  }
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const bool trusts =
      options.certificate_authority.empty()
          ? ::SSL_CTX_set_default_verify_paths(context.get()) == 1
          : ::SSL_CTX_load_verify_file(context.get(), options.certificate_authority.c_str()) == 1;
  if (!trusts) {
    fail("the certificate authority cannot be read");
  }
  if (!options.certificate.empty() &&
      (::SSL_CTX_use_certificate_chain_file(context.get(), options.certificate.c_str()) != 1 ||
       ::SSL_CTX_use_PrivateKey_file(context.get(), options.key.c_str(), SSL_FILETYPE_PEM) != 1)) {
    fail("the certificate or its key cannot be read");
  }
  return context;
}

bool is_number(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

// OpenSSL works on memory; the socket beneath moves it. So its deadlines and its care for signals
// hold here too.
class TlsTransport : public Transport {
 public:
  TlsTransport(std::unique_ptr<Transport> beneath, const RedisOptions& options, Deadline deadline)
      : beneath_(std::move(beneath)),
        context_(make_context(options)),
        session_(::SSL_new(context_.get())) {
    incoming_ = ::BIO_new(::BIO_s_mem());
    outgoing_ = ::BIO_new(::BIO_s_mem());
    if (!session_ || incoming_ == nullptr || outgoing_ == nullptr) {
      fail("TLS cannot be set up");
    }
    ::SSL_set_bio(session_.get(), incoming_, outgoing_);  // Which now owns both.
    const bool named =
        is_number(options.host)
            ? ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(session_.get()),
                                              options.host.c_str()) == 1
            : ::SSL_set1_host(session_.get(), options.host.c_str()) == 1 &&
                  ::SSL_set_tlsext_host_name(session_.get(), options.host.c_str()) == 1;
    if (!named) {
      fail("TLS cannot be set up for " + options.host);
    }
    complete([&] { return ::SSL_connect(session_.get()); }, deadline);
  }

  void write(std::string_view bytes, Deadline deadline) override {
    std::size_t written = 0;
    while (!bytes.empty()) {
      complete([&] { return ::SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written); },
               deadline);
      bytes.remove_prefix(written);
    }
  }

  std::size_t read(std::span<char> buffer, Deadline deadline) override {
    std::size_t count = 0;
    complete([&] { return ::SSL_read_ex(session_.get(), buffer.data(), buffer.size(), &count); },
             deadline);
    return count;
  }

 private:
  // Repeats `step` until OpenSSL is content, moving what it asks for.
  template <class Step>
  void complete(const Step& step, Deadline deadline) {
    while (true) {
      ::ERR_clear_error();  // Of whoever used OpenSSL in this thread: SSL_get_error looks at it.
      const int result = step();
      const int wanted = result > 0 ? SSL_ERROR_NONE : ::SSL_get_error(session_.get(), result);
      flush(deadline);
      if (wanted == SSL_ERROR_NONE) {
        return;
      }
      if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) {
        fail("TLS failed");
      }
      if (wanted == SSL_ERROR_WANT_READ) {
        const std::size_t count = beneath_->read(buffer_, deadline);
        ::BIO_write(incoming_, buffer_.data(), static_cast<int>(count));
      }
    }
  }

  void flush(Deadline deadline) {
    int count = 0;
    while ((count = ::BIO_read(outgoing_, buffer_.data(), static_cast<int>(buffer_.size()))) > 0) {
      beneath_->write({buffer_.data(), static_cast<std::size_t>(count)}, deadline);
    }
  }

  std::unique_ptr<Transport> beneath_;
  Context context_;
  std::unique_ptr<SSL, Free> session_;
  BIO* incoming_ = nullptr;  // Both belong to `session_`.
  BIO* outgoing_ = nullptr;
  std::array<char, 16'384> buffer_{};
};

}  // namespace

std::unique_ptr<Transport> secure(std::unique_ptr<Transport> beneath,
                                  const RedisOptions& options,
                                  Deadline deadline) {
  return std::make_unique<TlsTransport>(std::move(beneath), options, deadline);
}

}  // namespace kiln::autograd_cache

// CA-19: against a real redis-server that the test starts, with and without a password and TLS.

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_cache/redis_store.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "scripted_server.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

namespace fs = std::filesystem;

// A port that nobody uses: one that was just given to a server that is gone again.
std::uint16_t free_port() {
  return ScriptedServer([](const std::string&) { return std::string(); }).options().port;
}

// A certificate for 127.0.0.1 that signs itself, and its key, as files.
void write_certificate(const fs::path& folder) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(::EVP_EC_gen("P-256"), ::EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(::X509_new(), ::X509_free);
  ::X509_set_version(certificate.get(), 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -60);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 3600);
  ::X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = ::X509_get_subject_name(certificate.get());
  ::X509_NAME_add_entry_by_txt(
      name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("kiln test"), -1, -1, 0);
  ::X509_set_issuer_name(certificate.get(), name);
  for (const auto& [kind, value] : {std::pair(NID_subject_alt_name, "IP:127.0.0.1"),
                                    std::pair(NID_basic_constraints, "critical,CA:TRUE")}) {
    X509_EXTENSION* const extension = ::X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    ::X509_add_ext(certificate.get(), extension, -1);
    ::X509_EXTENSION_free(extension);
  }
  ::X509_sign(certificate.get(), key.get(), ::EVP_sha256());
  const auto write = [&](const char* file, const auto& print) {
    BIO* const memory = ::BIO_new(::BIO_s_mem());
    print(memory);
    char* bytes = nullptr;
    const long size = ::BIO_get_mem_data(memory, &bytes);
    write_file_atomically(folder / file, std::string_view(bytes, static_cast<std::size_t>(size)));
    ::BIO_free(memory);
  };
  write("certificate.pem", [&](BIO* out) { ::PEM_write_bio_X509(out, certificate.get()); });
  write("key.pem", [&](BIO* out) {
    ::PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

class RedisServer {
 public:
  explicit RedisServer(bool tls = false, const std::string& password = "") : tls_(tls) {
    std::vector<std::string> words = {KILN_REDIS_SERVER,
                                      "--bind",
                                      "127.0.0.1",
                                      "--save",
                                      "",
                                      "--dir",
                                      directory_.path().string(),
                                      tls ? "--tls-port" : "--port",
                                      std::to_string(port_)};
    if (tls) {
      write_certificate(directory_.path());
      const auto file = [&](const char* name) { return (directory_.path() / name).string(); };
      words.insert(words.end(),
                   {"--port",
                    "0",
                    "--tls-cert-file",
                    file("certificate.pem"),
                    "--tls-key-file",
                    file("key.pem"),
                    "--tls-ca-cert-file",
                    file("certificate.pem"),
                    "--tls-auth-clients",
                    "no"});
    }
    if (!password.empty()) {
      words.insert(words.end(), {"--requirepass", password});
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(STDOUT_FILENO);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  ~RedisServer() { stop(); }

  void stop() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
  }

  // With `access` between "//" and the host, once the server answers.
  [[nodiscard]] std::string address(const std::string& access = "",
                                    const std::string& settings = "") const {
    return (tls_ ? "rediss://" : "redis://") + access + "127.0.0.1:" + std::to_string(port_) +
           "?timeout=5000" +
           (tls_ ? "&ca=" + (directory_.path() / "certificate.pem").string() : "") + settings;
  }

  void wait_until_ready(const std::string& access = "") const {
    for (int attempt = 0; attempt < 200; ++attempt) {
      try {
        static_cast<void>(RedisStore(parse_redis_address(address(access))).contains("x"));
        return;
      } catch (const Error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(25));
      }
    }
    FAIL("the server does not answer");
  }

 private:
  TemporaryDirectory directory_;
  std::uint16_t port_ = free_port();
  bool tls_;
  pid_t process_ = 0;
};

CacheOptions options_with(const fs::path& directory, const std::string& remote) {
  CacheOptions options = options_for(directory);
  options.max_bytes = 64 << 20;
  options.remote = remote;
  options.secret = "secret";
  return options;
}

TEST_CASE("CA-19 two machines share a server, which may die at any time",
          "[autograd-cache][redis_server]") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "model.so", noise(3'000'000));
  RedisServer server;
  server.wait_until_ready();
  Cache first(options_with(directory.path() / "first", server.address()));
  first.put(kKey,
            {.guards = "4",
             .blobs = {{"metadata", std::string("\0\r\n\xff", 4)}},
             .files = {{"library", directory.path() / "model.so"}}});

  Cache second(options_with(directory.path() / "second", server.address()));
  const auto found = second.find(kKey, [](std::string_view guards) { return guards == "4"; });
  REQUIRE(found.has_value());
  CHECK(found->blobs.at("metadata") == std::string("\0\r\n\xff", 4));
  CHECK(read_file(found->files.at("library")) == noise(3'000'000));
  CHECK(second.counters().remote_hit == 1);
  CHECK(first.counters().remote_fault + second.counters().remote_fault == 0);

  Cache third(options_with(directory.path() / "third", server.address()));
  static_cast<void>(third.find_object(digest("none")));  // It is connected,
  server.stop();                                         // and the server dies.
  const auto obtained = third.obtain(kKey, {}, [] { return Entry{.guards = "5"}; });
  CHECK(obtained.entry.guards == "5");
  CHECK_FALSE(obtained.hit);
  CHECK(third.counters().remote_fault == 1);
}

TEST_CASE("CA-19 a process that forks does not share its parent's connection",
          "[autograd-cache][redis_server]") {
  RedisServer server;
  server.wait_until_ready();
  RedisStore store(parse_redis_address(server.address()));
  store.save("parent", "p");
  const int good = count_successful_processes(4, [&](int number) {
    const std::string name = "child " + std::to_string(number);
    for (int round = 0; round < 50; ++round) {
      store.save(name, name);
      if (store.load(name) != name || store.load("parent") != "p") {
        return false;
      }
    }
    return true;
  });
  CHECK(good == 4);
  CHECK(store.load("parent") == "p");
  CHECK_FALSE(store.load("none").has_value());
}

TEST_CASE("CA-19 a password is asked for and given", "[autograd-cache][redis_server]") {
  RedisServer server(false, "open sesame");
  server.wait_until_ready(":open%20sesame@");
  CHECK_NOTHROW(RedisStore(parse_redis_address(server.address(":open%20sesame@"))).save("a", "b"));
  CHECK_NOTHROW(
      RedisStore(parse_redis_address(server.address("default:open%20sesame@"))).save("a", "b"));
  CHECK_THROWS_AS(RedisStore(parse_redis_address(server.address())).save("a", "b"), Error);
  CHECK_THROWS_AS(RedisStore(parse_redis_address(server.address(":wrong@"))).save("a", "b"), Error);
}

TEST_CASE("CA-19 TLS: the server must be who it says", "[autograd-cache][redis_server]") {
  RedisServer server(true);
  server.wait_until_ready();
  RedisStore store(parse_redis_address(server.address()));
  const std::string large = noise(2'000'000);
  store.save("a", large);
  CHECK(store.load("a") == large);
  ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);  // Left behind by other code in this thread.
  CHECK(store.load("a") == large);

  RedisOptions stranger = parse_redis_address(server.address());
  stranger.certificate_authority.clear();  // The system does not know who signed it.
  CHECK_THROWS_AS(RedisStore(stranger).save("a", "b"), Error);
  RedisOptions renamed = parse_redis_address(server.address());
  renamed.host = "localhost";  // The same machine, but not the name that it shows.
  CHECK_THROWS_AS(RedisStore(renamed).save("a", "b"), Error);
  RedisOptions plain = parse_redis_address(server.address());
  plain.tls = false;
  plain.timeout = std::chrono::milliseconds(300);
  CHECK_THROWS_AS(RedisStore(plain).save("a", "b"), Error);
}

}  // namespace
}  // namespace kiln::autograd_cache

// The remote tier on a Redis server (or anything that speaks its protocol).
//
// Its own client, on a socket and OpenSSL: every call has one deadline for all of it, however the
// server dribbles, and no memory is allocated for a length that a server merely claims.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/autograd_cache/remote_store.hpp"

namespace kiln::autograd_cache {

/// Where a Redis server is and how it is spoken to.
struct RedisOptions {
  std::string host = "localhost";  ///< Name or address.
  std::uint16_t port = 6379;       ///< Of the server.
  std::string user = {};           ///< Empty: the server's default user.
  std::string password = {};       ///< Empty: none is sent.
  std::uint32_t database = 0;      ///< Its number on the server.
  std::chrono::milliseconds timeout = std::chrono::seconds(1);  ///< Of one call, all of it.
  std::string prefix = "kiln:";                                 ///< Before every name.
  std::size_t largest_value = std::size_t{256} << 20;           ///< Larger ones are an error.

  bool tls = false;                        ///< Encrypted, and the server proves who it is.
  std::string certificate_authority = {};  ///< A file (PEM); empty: those that the system trusts.
  std::string certificate = {};            ///< A file (PEM) that shows who we are, if asked for.
  std::string key = {};                    ///< Its key, a file too.
};

/// Reads redis://[[user]:password@]host[:port][/database], or rediss:// for TLS, with options after
/// a question mark: timeout (milliseconds), prefix, ca, cert, key. $KILN_CACHE_REMOTE_PASSWORD is
/// used if the address has no password.
///
/// Throws `Error` with `kInvalidArgument`.
[[nodiscard]] RedisOptions parse_redis_address(std::string_view address);

/// One connection, opened when it is first needed, and again where the server closed it meanwhile.
class RedisStore : public RemoteStore {
 public:
  explicit RedisStore(RedisOptions options);  ///< Connects at the first use.
  ~RedisStore() override;

  [[nodiscard]] std::optional<std::string> load(const std::string& name) override;
  [[nodiscard]] bool contains(const std::string& name) override;        ///< As `RemoteStore` says.
  void save(const std::string& name, std::string_view bytes) override;  ///< As `RemoteStore` says.
  [[nodiscard]] std::map<std::string, std::string> load_group(const std::string& name) override;
  void save_member(const std::string& name,
                   const std::string& member,
                   std::string_view bytes) override;
  [[nodiscard]] std::string description() const override;

 private:
  struct Connection;
  struct Reply;
  Reply call(std::initializer_list<std::string_view> command);

  RedisOptions options_;
  std::unique_ptr<Connection> connection_;
};

/// The remote store at `address`. Throws `Error` with `kInvalidArgument` if that is not an address.
[[nodiscard]] std::shared_ptr<RemoteStore> open_remote(const std::string& address);

}  // namespace kiln::autograd_cache

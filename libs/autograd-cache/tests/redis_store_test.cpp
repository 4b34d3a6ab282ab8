// CA-19: the client alone, and a server that stalls, lies or dies.

#include "kiln/autograd_cache/redis_store.hpp"

#include <chrono>
#include <cstdlib>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"
#include "scripted_server.hpp"
#include "store_testing.hpp"

namespace kiln::autograd_cache {
namespace {

template <class Work>
std::chrono::milliseconds time_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

TEST_CASE("CA-19 an address says where the server is and how it is spoken to",
          "[autograd-cache][redis_store]") {
  const RedisOptions plain = parse_redis_address("redis://cache.local");
  CHECK(plain.host == "cache.local");
  CHECK(plain.port == 6379);
  CHECK_FALSE(plain.tls);
  CHECK(plain.password.empty());

  const RedisOptions full = parse_redis_address(
      "rediss://us%65r:p%40ss@10.0.0.1:7000/3?timeout=250&prefix=ci%3A&ca=/a.pem&cert=b&key=c");
  CHECK(full.tls);
  CHECK(full.user == "user");
  CHECK(full.password == "p@ss");
  CHECK(full.host == "10.0.0.1");
  CHECK(full.port == 7000);
  CHECK(full.database == 3);
  CHECK(full.timeout == std::chrono::milliseconds(250));
  CHECK(full.prefix == "ci:");
  CHECK(full.certificate_authority == "/a.pem");
  CHECK(full.certificate == "b");
  CHECK(full.key == "c");

  const RedisOptions signs = parse_redis_address("redis://:a%2Fb%3Fc@host/1?prefix=d%40");
  CHECK(signs.password == "a/b?c");
  CHECK(signs.prefix == "d@");
  CHECK(signs.database == 1);

  const RedisOptions six = parse_redis_address("redis://:secret@[::1]:7000");
  CHECK(six.host == "::1");
  CHECK(six.port == 7000);
  CHECK(six.password == "secret");
  CHECK(parse_redis_address("redis://").host == "localhost");
}

TEST_CASE("CA-19 what is no address is refused, and no password is repeated",
          "[autograd-cache][redis_store]") {
  for (const char* address : {"http://host",
                              "host",
                              "redis://hidden@host:port",
                              "redis://:hidden@host:70000",
                              "redis://:hidden@host/x",
                              "redis://:hidden@host?color=red",
                              "redis://:hid%zzden@host",
                              "redis://:x/hidden@host",
                              "redis://:x?hidden@host",
                              "redis://:1?prefix=hidden@host",
                              "redis://user:hidden",
                              "redis://host?hidden",
                              "redis://host?timeout=hidden",
                              "redis://:hidden@[::1"}) {
    try {
      static_cast<void>(parse_redis_address(address));
      FAIL(address);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
      CHECK(std::string(error.what()).find("hidden") == std::string::npos);
    }
  }
}

TEST_CASE("CA-19 the password may come from the environment", "[autograd-cache][redis_store]") {
  ::setenv("KILN_CACHE_REMOTE_PASSWORD", "from outside", 1);
  CHECK(parse_redis_address("redis://host").password == "from outside");
  CHECK(parse_redis_address("redis://:own@host").password == "own");
  ::unsetenv("KILN_CACHE_REMOTE_PASSWORD");
}

TEST_CASE("CA-19 replies of every kind are read, in whatever pieces they come",
          "[autograd-cache][redis_store]") {
  ScriptedServer server([](const std::string& command) -> std::string {
    if (command.find("GET\r\n") != std::string::npos && command.find("HGET") == std::string::npos) {
      return "$5\r\na\r\nbc\r\n";
    }
    if (command.find("HGETALL") != std::string::npos) {
      return "*4\r\n$1\r\nx\r\n$0\r\n\r\n$1\r\ny\r\n$2\r\nyy\r\n";
    }
    return command.find("EXISTS") != std::string::npos ? ":1\r\n" : "+OK\r\n";
  });
  RedisStore store(server.options());
  CHECK(store.load("a") == "a\r\nbc");
  CHECK(store.contains("a"));
  CHECK(store.load_group("g") == std::map<std::string, std::string>{{"x", ""}, {"y", "yy"}});
  store.save("a", "b");
  CHECK(server.connections() == 1);
}

TEST_CASE("CA-19 a connection that the server closed is opened again, once",
          "[autograd-cache][redis_store]") {
  const bool comes_back = GENERATE(true, false);
  int commands = 0;
  ScriptedServer server([&](const std::string&) -> std::string {
    ++commands;
    return commands == 1 || (comes_back && commands > 2) ? "$1\r\nx\r\n" : ScriptedServer::kHangUp;
  });
  RedisStore store(server.options());
  CHECK(store.load("a") == "x");
  if (comes_back) {
    CHECK(store.load("a") == "x");
    CHECK(store.load("a") == "x");
  } else {
    CHECK_THROWS_AS(store.load("a"), Error);
  }
  CHECK(server.connections() == 2);
}

TEST_CASE("CA-19 a reply that no server should give is an error, not a crash or a great allocation",
          "[autograd-cache][redis_store]") {
  const std::string reply = GENERATE(as<std::string>(),
                                     "-ERR no\r\n",
                                     "$99999999999999\r\nx",
                                     "$-5x\r\n",
                                     "$3\r\nabcdef\r\n",
                                     "*1000000000\r\n!\r\n",
                                     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+x\r\n",
                                     "\r\n",
                                     "?\r\n",
                                     "HTTP/1.1 400 Bad Request\r\n\r\n",
                                     ":1\r\n",
                                     std::string("hang up"));
  ScriptedServer server([&](const std::string&) { return reply; });
  RedisStore store(server.options());
  CHECK_THROWS_AS(store.load("a"), Error);
}

TEST_CASE(
    "CA-19 CA-18 a server that stalls, dribbles, lies or dies costs one time-out and no result",
    "[autograd-cache][redis_store]") {
  const auto answers = GENERATE(0, 1, 2, 3, 4);
  ScriptedServer server([&](const std::string& command) -> std::string {
    switch (answers) {
      case 0: return "";                       // Stalls.
      case 1: return ScriptedServer::kHangUp;  // Dies.
      case 2: return "$100\r\nx";              // Begins and does not end.
      case 3: return "-LOADING\r\n";
      default:  // Lies: has everything, and it is nonsense.
        if (command.find("HGETALL") != std::string::npos) {
          return "*2\r\n$1\r\nx\r\n$8\r\nnonsense\r\n";
        }
        return command.find("EXISTS") != std::string::npos ? ":1\r\n" : "$8\r\nnonsense\r\n";
    }
  });
  const TemporaryDirectory directory;
  CacheOptions options = options_for(directory.path());
  options.remote_store = std::make_shared<RedisStore>(server.options());
  Cache cache(options);

  const auto taken = time_of([&] {
    for (int i = 0; i < 5; ++i) {
      const auto made = cache.obtain(KeyBuilder().add("n", std::to_string(i)).build(), {}, [] {
        return Entry{.guards = "4"};
      });
      CHECK(made.entry.guards == "4");
      CHECK_FALSE(made.hit);
    }
  });

  CHECK(taken < std::chrono::milliseconds(800));  // 150 ms, once, and what a busy machine adds.
  if (answers == 4) {
    CHECK(cache.counters().remote_refused > 0);
  } else {
    CHECK(cache.counters().remote_fault == 1);
    CHECK(server.connections() == 1);
  }
  CHECK(cache.counters().saved == 5);
  CHECK(cache.counters().remote_hit == 0);
}

TEST_CASE("CA-19 nobody listens: the cache works without", "[autograd-cache][redis_store]") {
  const TemporaryDirectory directory;
  CacheOptions options = options_for(directory.path());
  options.remote = GENERATE(as<std::string>(),
                            "redis://127.0.0.1:1?timeout=100",
                            "redis://no.such.host.invalid?timeout=100",
                            "not an address");
  Cache cache(options);
  CHECK(cache.put(kKey, {}));
  CHECK(cache.find(kKey).has_value());
  CHECK(cache.counters().remote_fault <= 1);
}

TEST_CASE("CA-10 in strict mode a remote address must be one", "[autograd-cache][redis_store]") {
  const TemporaryDirectory directory;
  CacheOptions options = options_for(directory.path(), Mode::kStrict);
  options.remote = "not an address";
  CHECK_THROWS_AS(Cache(options), Error);
}

}  // namespace
}  // namespace kiln::autograd_cache

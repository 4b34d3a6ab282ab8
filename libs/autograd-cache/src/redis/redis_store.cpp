#include "kiln/autograd_cache/redis_store.hpp"

#include <unistd.h>

#include <utility>

#include "kiln/base/error.hpp"
#include "protocol.hpp"
#include "transport.hpp"

namespace kiln::autograd_cache {

struct RedisStore::Reply : RedisReply {};

struct RedisStore::Connection {
  Connection(const RedisOptions& options, Deadline deadline)
      : transport(connect_socket(options, deadline)) {
    if (options.tls) {
      transport = secure(std::move(transport), options, deadline);
    }
    reader.emplace(*transport, options.largest_value);
    if (!options.password.empty()) {
      options.user.empty() ? expect_ok({"AUTH", options.password}, deadline)
                           : expect_ok({"AUTH", options.user, options.password}, deadline);
    }
    if (options.database != 0) {
      expect_ok({"SELECT", std::to_string(options.database)}, deadline);
    }
  }

  RedisReply exchange(std::initializer_list<std::string_view> command, Deadline deadline) {
    transport->write(format_command(command), deadline);
    RedisReply reply = reader->read(deadline);
    if (reply.kind == RedisReply::Kind::kError) {
      throw Error(ErrorCode::kIo, "the server says: " + reply.text);
    }
    return reply;
  }

  void expect_ok(std::initializer_list<std::string_view> command, Deadline deadline) {
    static_cast<void>(exchange(command, deadline));
  }

  std::unique_ptr<Transport> transport;
  std::optional<ReplyReader> reader;
  pid_t process = ::getpid();
};

RedisStore::RedisStore(RedisOptions options) : options_(std::move(options)) {}
RedisStore::~RedisStore() = default;

RedisStore::Reply RedisStore::call(std::initializer_list<std::string_view> command) {
  const Deadline deadline = std::chrono::steady_clock::now() + options_.timeout;
  // Parent and child of a fork must not share one conversation.
  bool is_reused = connection_ && connection_->process == ::getpid();
  while (true) {
    if (!is_reused) {
      connection_ = std::make_unique<Connection>(options_, deadline);
    }
    const std::uint64_t before = connection_->reader->received();
    try {
      return {connection_->exchange(command, deadline)};
    } catch (...) {
      const bool is_answered = connection_->reader->received() != before;
      connection_.reset();  // Whatever still comes would be taken for the next answer.
      // Servers, and what stands before them, close connections that were idle for long. Each of
      // our commands may be sent twice.
      if (!is_reused || is_answered || std::chrono::steady_clock::now() >= deadline) {
        throw;
      }
      is_reused = false;
    }
  }
}

std::optional<std::string> RedisStore::load(const std::string& name) {
  Reply reply = call({"GET", options_.prefix + name});
  if (reply.kind == RedisReply::Kind::kNothing) {
    return std::nullopt;
  }
  if (reply.kind != RedisReply::Kind::kText) {
    throw Error(ErrorCode::kCorrupt, "the server answered GET with something else than a value");
  }
  return std::move(reply.text);
}

bool RedisStore::contains(const std::string& name) {
  const Reply reply = call({"EXISTS", options_.prefix + name});
  return reply.kind == RedisReply::Kind::kInteger && reply.integer > 0;
}

void RedisStore::save(const std::string& name, std::string_view bytes) {
  if (bytes.size() <= options_.largest_value) {
    call({"SET", options_.prefix + name, bytes});
  }
}

std::map<std::string, std::string> RedisStore::load_group(const std::string& name) {
  Reply reply = call({"HGETALL", options_.prefix + name});
  std::map<std::string, std::string> group;
  if (reply.kind != RedisReply::Kind::kList || reply.items.size() % 2 != 0) {
    throw Error(ErrorCode::kCorrupt, "the server answered HGETALL with something else than pairs");
  }
  for (std::size_t i = 0; i < reply.items.size(); i += 2) {
    group.emplace(std::move(reply.items[i].text), std::move(reply.items[i + 1].text));
  }
  return group;
}

void RedisStore::save_member(const std::string& name,
                             const std::string& member,
                             std::string_view bytes) {
  if (bytes.size() <= options_.largest_value) {
    call({"HSET", options_.prefix + name, member, bytes});
  }
}

std::string RedisStore::description() const {
  return options_.host + ":" + std::to_string(options_.port);
}

}  // namespace kiln::autograd_cache

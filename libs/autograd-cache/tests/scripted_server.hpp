// A server that does to a client what a test wants: answer, stall, lie, die.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "kiln/autograd_cache/redis_store.hpp"

namespace kiln::autograd_cache {

/// Listens on a port of its own. Whatever arrives is handed to `answer`, and what that returns is
/// sent; nothing is sent for an empty answer, and kHangUp closes the connection.
class ScriptedServer {
 public:
  inline static const std::string kHangUp = "hang up";

  explicit ScriptedServer(std::function<std::string(const std::string&)> answer)
      : answer_(std::move(answer)), listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    ::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listening_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ::ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }

  ~ScriptedServer() {
    stopping_ = true;
    thread_.join();
    ::close(listening_);
  }

  /// How often a client connected.
  [[nodiscard]] int connections() const { return connections_; }

  [[nodiscard]] RedisOptions options() const {
    RedisOptions options;
    options.host = "127.0.0.1";
    options.port = port_;
    options.timeout = std::chrono::milliseconds(150);
    return options;
  }

 private:
  bool readable(int descriptor) {
    while (!stopping_) {
      pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, 5) > 0) {
        return true;
      }
    }
    return false;
  }

  void serve() {
    while (readable(listening_)) {
      const int client = ::accept(listening_, nullptr, nullptr);
      ++connections_;
      while (readable(client)) {
        std::array<char, 65'536> buffer{};
        const ssize_t count = ::recv(client, buffer.data(), buffer.size(), 0);
        if (count <= 0) {
          break;
        }
        const std::string reply =
            answer_(std::string(buffer.data(), static_cast<std::size_t>(count)));
        if (reply == kHangUp) {
          break;
        }
        ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
      }
      ::close(client);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int listening_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace kiln::autograd_cache

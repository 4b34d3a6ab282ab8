// A server on the loopback interface with a thread for each client: no more than the example needs.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

/// One end of a connection.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}
  ~Connection() {
    if (socket_ >= 0) {
      ::close(socket_);
    }
  }
  Connection(Connection&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

  /// Sends all of `bytes`.
  void send(const void* bytes, std::size_t count) const {
    for (std::size_t done = 0; done < count;) {
      const auto sent =
          ::send(socket_, static_cast<const char*>(bytes) + done, count - done, MSG_NOSIGNAL);
      if (sent <= 0) {
        throw std::runtime_error("the other side has gone");
      }
      done += static_cast<std::size_t>(sent);
    }
  }

  /// Waits for `count` bytes; false if the other side closed the connection before.
  bool receive(void* bytes, std::size_t count) const {
    return ::recv(socket_, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
  }

  [[nodiscard]] int socket() const { return socket_; }

 private:
  int socket_;
};

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

inline Connection connect_to(int port) {
  Connection connection(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(connection.socket(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
      0) {
    throw std::runtime_error("cannot connect to the server");
  }
  return connection;
}

/// Calls `serve` for each client in a thread of its own, until it is destroyed.
class Server {
 public:
  explicit Server(std::function<void(const Connection&)> serve)
      : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.socket(), generic, size) != 0 || ::listen(listener_.socket(), 16) != 0 ||
        ::getsockname(listener_.socket(), generic, &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this, serve = std::move(serve)] {
      for (int socket = accept(); socket >= 0; socket = accept()) {
        clients_.emplace_back([serve, client = Connection(socket)]() mutable { serve(client); });
      }
    });
  }
  ~Server() {
    ::shutdown(listener_.socket(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& client : clients_) {
      client.join();
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return port_; }

 private:
  int accept() const { return ::accept(listener_.socket(), nullptr, nullptr); }

  Connection listener_;
  int port_ = 0;
  std::thread acceptor_;
  std::vector<std::thread> clients_;
};

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/base/file_descriptor.hpp"
#include "transport.hpp"

namespace kiln::autograd_cache {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kIo, what);
}

[[noreturn]] void fail(const std::string& what, int code) {
  fail(what + ": " + std::generic_category().message(code));
}

void wait_for(int descriptor, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      fail("the server did not answer in time");
    }
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const int ready =
        ::poll(&waiting, 1, static_cast<int>(std::min<long long>(left.count(), 60'000)));
    if (ready > 0) {
      return;
    }
    if (ready < 0 && errno != EINTR) {
      fail("cannot wait for the server", errno);
    }
  }
}

struct Address {
  int family = 0;
  std::vector<std::byte> bytes;
};

std::vector<Address> look_up(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  std::vector<Address> addresses;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) {
    return addresses;
  }
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    const auto* bytes = reinterpret_cast<const std::byte*>(each->ai_addr);
    addresses.push_back({each->ai_family, {bytes, bytes + each->ai_addrlen}});
  }
  ::freeaddrinfo(list);
  return addresses;
}

// A name server that does not answer blocks getaddrinfo for half a minute, and nothing can stop it:
// it gets a thread that we can leave behind.
std::vector<Address> resolve(const std::string& host, const std::string& port, Deadline deadline) {
  std::vector<Address> addresses = look_up(host, port, AI_NUMERICHOST);
  if (addresses.empty()) {
    std::packaged_task<std::vector<Address>()> task([=] { return look_up(host, port, 0); });
    std::future<std::vector<Address>> found = task.get_future();
    std::thread(std::move(task)).detach();
    if (found.wait_until(deadline) == std::future_status::ready) {
      addresses = found.get();
    }
  }
  if (addresses.empty()) {
    fail("the host " + host + " is not known");
  }
  return addresses;
}

class Socket : public Transport {
 public:
  explicit Socket(FileDescriptor socket) : socket_(std::move(socket)) {}

  void write(std::string_view bytes, Deadline deadline) override {
    while (!bytes.empty()) {
      // Without a signal: the server may have gone.
      const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait_for(socket_.number(), POLLOUT, deadline);
      } else if (errno != EINTR) {
        fail("the connection broke", errno);
      }
    }
  }

  std::size_t read(std::span<char> buffer, Deadline deadline) override {
    while (true) {
      wait_for(socket_.number(), POLLIN, deadline);
      const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
      if (count > 0) {
        return static_cast<std::size_t>(count);
      }
      if (count == 0) {
        fail("the server closed the connection");
      }
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        fail("the connection broke", errno);
      }
    }
  }

 private:
  FileDescriptor socket_;
};

// 0, or the errno that says why not.
int try_connect(const FileDescriptor& socket, const Address& address, Deadline deadline) {
  if (::connect(socket.number(),
                reinterpret_cast<const sockaddr*>(address.bytes.data()),
                static_cast<socklen_t>(address.bytes.size())) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  wait_for(socket.number(), POLLOUT, deadline);
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

}  // namespace

std::unique_ptr<Transport> connect_socket(const RedisOptions& options, Deadline deadline) {
  int code = 0;
  for (const Address& address : resolve(options.host, std::to_string(options.port), deadline)) {
    FileDescriptor socket(
        ::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!socket.open()) {
      code = errno;
      continue;
    }
    code = try_connect(socket, address, deadline);
    if (code == 0) {
      const int on = 1;  // A command is one message: waiting for more of it helps nobody.
      ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return std::make_unique<Socket>(std::move(socket));
    }
  }
  fail("cannot connect", code);
}

}  // namespace kiln::autograd_cache

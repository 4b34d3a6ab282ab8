#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "kiln/autograd_cache/redis_store.hpp"
#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

// Not with the address or any part of it: where one is not what it should be, it may be a part of a
// password.
[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              why + "; a remote cache is redis://[[user]:password@]host[:port][/database]");
}

// Removes what precedes `mark` from `text`; without a mark, all or nothing of it.
std::optional<std::string_view> take_until(std::string_view& text, char mark) {
  const std::size_t position = text.find(mark);
  if (position == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view taken = text.substr(0, position);
  text.remove_prefix(position + 1);
  return taken;
}

template <class Number>
Number parse_number(std::string_view text, const char* what) {
  Number number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) {
    refuse(std::string("the ") + what + " is not a number, or too large a one");
  }
  return number;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (failure != std::errc() || end != digits.data() + 2) {
      refuse("a per cent sign is not followed by two hexadecimal digits");
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

void apply_setting(std::string_view setting, RedisOptions& options) {
  std::string_view value = setting;
  const std::string_view name = take_until(value, '=').value_or(setting);
  if (name == "timeout") {
    options.timeout = std::chrono::milliseconds(parse_number<std::uint32_t>(value, "time-out"));
  } else if (name == "prefix") {
    options.prefix = percent_decoded(value);
  } else if (name == "ca") {
    options.certificate_authority = percent_decoded(value);
  } else if (name == "cert") {
    options.certificate = percent_decoded(value);
  } else if (name == "key") {
    options.key = percent_decoded(value);
  } else {
    refuse("a setting is not one of timeout, prefix, ca, cert and key");
  }
}

// "host", "host:port", "[::1]:port"
void apply_host(std::string_view text, RedisOptions& options) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    port = text.substr(1);
    const auto inside = take_until(port, ']');
    if (!inside || (!port.empty() && !port.starts_with(':'))) {
      refuse("the host's bracket is not closed");
    }
    host = *inside;
    port.remove_prefix(port.empty() ? 0 : 1);
  } else if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (!host.empty()) {
    options.host = host;
  }
  if (!port.empty()) {
    options.port = parse_number<std::uint16_t>(port, "port");
  }
}

}  // namespace

RedisOptions parse_redis_address(std::string_view address) {
  RedisOptions options;
  options.tls = address.starts_with("rediss://");
  if (!options.tls && !address.starts_with("redis://")) {
    refuse("the address does not begin with redis:// or rediss://");
  }
  address.remove_prefix(address.find("//") + 2);
  // Whether such an address has a password with a '/' in it or a setting with an '@' cannot be
  // told.
  if (const std::size_t at = address.rfind('@');
      at != std::string_view::npos && address.find_first_of("/?") < at) {
    refuse("an '@' follows a '/' or a '?': write %2F and %3F in a password, or %40 in a setting");
  }

  std::string_view settings = address;
  if (const auto before = take_until(settings, '?')) {
    address = *before;
    while (!settings.empty()) {
      std::string_view rest = settings;
      const auto setting = take_until(rest, '&');
      apply_setting(setting.value_or(settings), options);
      settings = setting ? rest : std::string_view();
    }
  }
  std::string_view database = address;
  if (const auto before = take_until(database, '/')) {
    address = *before;
    options.database = database.empty() ? 0 : parse_number<std::uint32_t>(database, "database");
  }
  if (const std::size_t at = address.rfind('@'); at != std::string_view::npos) {
    std::string_view password = address.substr(0, at);
    options.user = percent_decoded(take_until(password, ':').value_or(""));
    options.password = percent_decoded(password);
    address.remove_prefix(at + 1);
  }
  if (const char* password = std::getenv("KILN_CACHE_REMOTE_PASSWORD");
      password != nullptr && options.password.empty()) {
    options.password = password;
  }
  apply_host(address, options);
  return options;
}

std::shared_ptr<RemoteStore> open_remote(const std::string& address) {
  return std::make_shared<RedisStore>(parse_redis_address(address));
}

}  // namespace kiln::autograd_cache

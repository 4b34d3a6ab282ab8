#include "protocol.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "kiln/base/error.hpp"

namespace kiln::autograd_cache {

namespace {

constexpr std::string_view kEnd = "\r\n";
constexpr int kDeepest = 4;
constexpr std::size_t kLongestLine = 64 << 10;

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::kCorrupt, std::string("invalid Redis reply: ") + what);
}

std::int64_t parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) {
    refuse("no number");
  }
  return number;
}

}  // namespace

std::string format_command(std::initializer_list<std::string_view> words) {
  std::string bytes = "*" + std::to_string(words.size());
  bytes += kEnd;
  for (const std::string_view word : words) {
    bytes += "$" + std::to_string(word.size());
    bytes += kEnd;
    bytes += word;
    bytes += kEnd;
  }
  return bytes;
}

RedisReply ReplyReader::read(Deadline deadline) {
  received_ = 0;
  return parse(0, deadline);
}

RedisReply ReplyReader::parse(int depth, Deadline deadline) {
  const std::string text = line(deadline);
  if (text.empty()) {
    refuse("an empty line");
  }
  const std::string_view rest = std::string_view(text).substr(1);
  RedisReply reply;
  switch (text.front()) {
    case '+':
      reply.kind = RedisReply::Kind::kText;
      reply.text = rest;
      return reply;
    case '-':
      reply.kind = RedisReply::Kind::kError;
      reply.text = rest;
      return reply;
    case ':':
      reply.kind = RedisReply::Kind::kInteger;
      reply.integer = parse_number(rest);
      return reply;
    case '$': {
      const std::int64_t size = parse_number(rest);
      if (size < 0) {
        return reply;
      }
      reply.kind = RedisReply::Kind::kText;
      reply.text = exactly(static_cast<std::size_t>(size), deadline);
      if (exactly(kEnd.size(), deadline) != kEnd) {
        refuse("a value without an end");
      }
      return reply;
    }
    case '*':
      if (depth >= kDeepest) {
        refuse("lists within lists");
      }
      reply.kind = RedisReply::Kind::kList;
      for (std::int64_t count = parse_number(rest); count > 0; --count) {
        reply.items.push_back(parse(depth + 1, deadline));
      }
      return reply;
    default: refuse("an unknown kind of reply");
  }
}

std::string ReplyReader::line(Deadline deadline) {
  while (true) {
    const std::size_t end = buffer_.find(kEnd, position_);
    if (end != std::string::npos) {
      std::string text = buffer_.substr(position_, end - position_);
      position_ = end + kEnd.size();
      return text;
    }
    if (buffer_.size() - position_ > kLongestLine) {
      refuse("a line without an end");
    }
    receive(deadline);
  }
}

std::string ReplyReader::exactly(std::size_t count, Deadline deadline) {
  if (count > largest_) {
    refuse("a value that is too large");
  }
  std::string bytes;
  while (true) {
    const std::size_t taken = std::min(count - bytes.size(), buffer_.size() - position_);
    bytes.append(buffer_, position_, taken);
    position_ += taken;
    if (bytes.size() == count) {
      return bytes;
    }
    receive(deadline);
  }
}

void ReplyReader::receive(Deadline deadline) {
  buffer_.erase(0, position_);
  position_ = 0;
  std::array<char, 64 << 10> chunk;
  const std::size_t count = transport_.read(chunk, deadline);
  received_ += count;
  received_in_all_ += count;
  if (received_ > largest_) {
    refuse("a reply that is too large");
  }
  buffer_.append(chunk.data(), count);
}

}  // namespace kiln::autograd_cache

#include "transport/tcp/frame.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

template <class T>
void put(std::byte*& to, T value) {
  base::store_little_endian(value, to);
  to += sizeof(T);
}

template <class T>
T take(const std::byte*& from) {
  const T value = base::load_little_endian<T>(from);
  from += sizeof(T);
  return value;
}

struct Rule {
  std::string_view name;
  std::size_t shortest, longest;
  bool group, channel, id, total;  // the fields that it uses
};

constexpr Rule rules[] = {
    {"eager", 0, longest_eager, true, true, false, false},
    {"request", 0, 0, true, true, true, true},
    {"clear", 0, 0, false, false, true, false},
    {"data", 1, longest_data, false, false, true, false},
    {"withdrawn", 0, 0, false, false, true, false},
    {"refused", 0, 0, false, false, true, true},
    {"consumed", 0, 0, false, false, false, true},
    {"notice", 0, longest_notice, true, false, false, false},
    {"call", 0, longest_call, true, false, false, false},
    {"heartbeat", 0, 0, false, false, false, false},
    {"goodbye", 0, 0, false, false, false, false},
    {"spread", 0, longest_spread, true, false, false, false},
    {"gone", 0, longest_spread, false, false, false, false},
};

}  // namespace

FrameBytes to_bytes(const FrameHead& head) {
  FrameBytes bytes{};
  std::byte* to = bytes.data();
  put(to, static_cast<std::uint32_t>(head.kind));
  put(to, head.length);
  put(to, head.group);
  put(to, head.channel);
  put(to, std::uint32_t{0});
  put(to, head.id);
  put(to, head.total);
  return bytes;
}

FrameHead to_head(const std::byte* bytes) {
  const auto kind = take<std::uint32_t>(bytes);
  FrameHead head;
  head.length = take<std::uint32_t>(bytes);
  head.group = take<std::uint64_t>(bytes);
  head.channel = take<std::uint32_t>(bytes);
  const auto zero = take<std::uint32_t>(bytes);
  head.id = take<std::uint64_t>(bytes);
  head.total = take<std::uint64_t>(bytes);
  if (kind < 1 || kind > std::size(rules)) throw ProtocolError(fmt::format("a frame of the unknown kind {}", kind));
  head.kind = static_cast<FrameKind>(kind);
  const Rule& rule = rules[kind - 1];
  if (head.length < rule.shortest || head.length > rule.longest) throw ProtocolError(fmt::format("a {} frame of {} bytes", rule.name, head.length));
  if (zero != 0 || (!rule.group && head.group != 0) || (!rule.channel && head.channel != 0) || (!rule.id && head.id != 0) ||
      (!rule.total && head.total != 0)) {
    throw ProtocolError(fmt::format("a {} frame with fields that it does not have", rule.name));
  }
  return head;
}

}  // namespace unisono::transport

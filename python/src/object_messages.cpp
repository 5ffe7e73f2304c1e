// Objects between two ranks.

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "docs/object_messages.h"
#include "failure.h"
#include "module.h"
#include "calls.h"
#include "pickling.h"
#include "signals.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/request.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

// An object as messages, as in C++: how long the next one is; that one, which begins with the type as MessagePack has it; and here, where the body is
// large, each segment of it from where it lies. A receive of another type says so, on either side.
constexpr std::string_view message_label = "send_object";
constexpr std::size_t lead_bytes = 1 + 2 * 9 + sizeof(std::uint64_t);
/// A shorter body is copied behind the head.
constexpr std::size_t shortest_body = std::size_t{64} << 10;

/// An array of two, the type, how many messages follow; then the length of the head.
struct Lead {
  std::uint64_t type = 0, messages = 0, head = 0;

  static void put(std::byte*& to, std::uint64_t number) {
    *to++ = std::byte{0xcf};  // a uint64, the highest byte first
    for (int shift = 56; shift >= 0; shift -= 8) *to++ = static_cast<std::byte>(number >> shift);
  }
  static std::uint64_t take(const std::byte*& from) {
    std::uint64_t number = 0;
    if (*from++ != std::byte{0xcf}) return 0;
    for (int i = 0; i < 8; ++i) number = (number << 8) | std::to_integer<std::uint64_t>(*from++);
    return number;
  }
  void write(std::byte* to) const {
    *to++ = std::byte{0x92};
    put(to, type);
    put(to, messages);
    std::memcpy(to, &head, sizeof head);
  }
  static Lead read(std::span<const std::byte> bytes) {
    Lead lead;
    if (bytes.size() < lead_bytes || bytes[0] != std::byte{0x92}) return lead;
    const std::byte* from = bytes.data() + 1;
    lead.type = take(from);
    lead.messages = take(from);
    std::memcpy(&lead.head, from, sizeof lead.head);
    return lead;
  }
};

MessageInfo run(const detail::MessageRequest& request, const Trailing& trailing) {
  return unlocked([&] { return detail::run(request, trailing.group, trailing.options); });
}
void send_bytes(const TensorView& bytes, Rank peer, const Trailing& trailing) {
  run({.operation = Operation::send, .data = bytes, .peer = peer, .label = message_label}, trailing);
}
MessageInfo recv_bytes(const TensorView& bytes, std::optional<Rank> peer, const Trailing& trailing) {
  return run({.operation = Operation::recv, .data = bytes, .peer = peer, .label = message_label}, trailing);
}
/// A receive of another length throws the message away.
void discard(std::size_t messages, Rank peer, const Trailing& trailing) {
  for (; messages > 0; --messages) {
    try {
      recv_bytes(detail::nothing(), peer, trailing);
    } catch (const Mismatch&) {  // NOLINT(bugprone-empty-catch): that is its length
    }
  }
}
[[noreturn]] void throw_too_large(const char* operation, std::size_t bytes, const char* hint) {
  throw_invalid(operation, "the object has " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(object_limits().bytes), hint);
}
constexpr const char* is_gone = "raise the limit with set_object_limits; this object is gone, the next one can be received";

void send_object(nb::handle x, nb::handle dst, nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "send_object");
  const Rank peer = rank_of(dst, "send_object");
  if (const auto refusal = detail::why_no_pickles(trailing.group)) std::rethrow_exception(refusal);
  const Pickled own(x);
  if (own.error()) std::rethrow_exception(own.error());
  const std::size_t body = aligned(lead_bytes + own.head().size());
  if (body + own.body_size() > object_limits().bytes) {
    throw_too_large("send_object", body + own.body_size(), "raise the limit with set_object_limits");
  }
  const bool apart = own.body_size() >= shortest_body;
  std::vector<std::byte> first(body + (apart ? 0 : own.body_size()));
  Lead{.type = python_object_type().fingerprint, .messages = apart ? own.segments().size() : 0, .head = own.head().size()}.write(first.data());
  std::memcpy(first.data() + lead_bytes, own.head().data(), own.head().size());
  if (!apart) own.pack(first.data() + body);
  {
    const Unlocked unlocked;
    detail::ObjectSeal::of_message(trailing.group.rank(), peer, trailing.options.tag, trailing.group)
        .append_trailer(first, apart ? detail::ObjectSeal::Pieces(own.segments()) : detail::ObjectSeal::Pieces());
  }
  std::array<std::uint64_t, 1> size{first.size()};
  send_bytes(line(size), peer, trailing);
  send_bytes(line(first), peer, trailing);
  for (std::size_t i = 0; apart && i < own.segments().size(); ++i) send_bytes(line(own.segments()[i]), peer, trailing);
}

/// The segments that come as messages of their own, each in memory of its own.
std::vector<nb::object> recv_segments(std::span<const std::byte> head, std::uint64_t messages, Rank peer, const Trailing& trailing,
                                      const detail::ObjectSeal& seal, const detail::ObjectCodes& codes) {
  const std::vector<std::size_t> sizes = segment_sizes(head);
  std::size_t total = head.size();
  for (const std::size_t size : sizes) total += std::min(size, object_limits().bytes + 1);  // no sum of these overflows
  if (sizes.size() != messages || total > object_limits().bytes) {
    discard(static_cast<std::size_t>(messages), peer, trailing);
    if (sizes.size() != messages) throw ProtocolError("the head of an object tells of other messages than come", {.operation = "recv_object"});
    throw_too_large("recv_object", total, is_gone);
  }
  std::vector<nb::object> memory;
  Segments segments;
  for (const std::size_t size : sizes) {
    const nb::object bytes = new_bytearray(size);
    segments.emplace_back(data_of(bytes), size);
    recv_bytes(line(segments.back()), peer, trailing);
    memory.push_back(nb::steal(PyMemoryView_FromObject(bytes.ptr())));
  }
  const Unlocked unlocked;
  seal.check(peer.value(), codes.number, detail::ObjectSeal::body, segments, codes.body);
  return memory;
}

nb::object recv_object(nb::handle src, nb::handle group, nb::handle timeout, int tag) {
  Trailing trailing(group, timeout, tag, "recv_object");
  if (const auto refusal = detail::why_no_pickles(trailing.group)) std::rethrow_exception(refusal);
  std::array<std::uint64_t, 1> size{};
  const MessageInfo announced = recv_bytes(line(size), source_of(src, "recv_object"), trailing);
  const Rank peer(announced.source);
  trailing.options.tag = announced.tag;
  const auto n = static_cast<std::size_t>(size[0]);
  if (n > object_limits().bytes && n - object_limits().bytes > detail::ObjectSeal::trailer_bytes) {
    discard(1, peer, trailing);
    throw_too_large("recv_object", n, is_gone);
  }
  const nb::object memory = new_bytearray(n);
  const std::span<const std::byte> received(data_of(memory), n);
  if (n > 0) recv_bytes(line(received), peer, trailing);
  const auto seal = detail::ObjectSeal::of_message(announced.source, trailing.group.rank(), announced.tag, trailing.group);
  const auto [bytes, codes] = unlocked([&] { return seal.checked(announced.source, received); });
  const Lead lead = Lead::read(bytes);
  if (lead.type != python_object_type().fingerprint) {
    throw Mismatch(
        "this rank receives an object of Python, and rank " + std::to_string(announced.source) + " has sent one of C++ or of another version",
        {.operation = "recv_object",
         .group = trailing.group.name(),
         .rank = trailing.group.rank(),
         .culprit = announced.source,
         .hint = "C++ and Python exchange buffers and numbers; both sides of an object are of one language"});
  }
  const std::size_t body = aligned(lead_bytes + static_cast<std::size_t>(std::min<std::uint64_t>(lead.head, n)));
  if (lead.head > bytes.size() || body > bytes.size()) throw ProtocolError("an object is longer than its message", {.operation = "recv_object"});
  const auto head = bytes.subspan(lead_bytes, static_cast<std::size_t>(lead.head));
  if (lead.messages > 0) return unpickled(head, recv_segments(head, lead.messages, peer, trailing, seal, codes));
  return unpickled(head, segments_in(head, bytes.subspan(body)));
}

}  // namespace

void bind_object_messages(nb::module_& m) {
  def_call(m, "send_object", &send_object, "x: typing.Any, dst: RankLike", "None", docs::send_object, "x"_a.none(), "dst"_a);
  def_call(m, "recv_object", &recv_object, "src: RankLike | AnySource", "typing.Any", docs::recv_object, "src"_a);
}

}  // namespace unisono::python

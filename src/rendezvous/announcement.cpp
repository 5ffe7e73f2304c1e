#include "rendezvous/announcement.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/printable.h"
#include "rendezvous/record.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::FileDescriptor;
using base::InterfaceAddress;
using base::SocketAddress;

[[noreturn]] void refuse_system(const SocketAddress& group, std::string_view what) {
  throw Unsupported(fmt::format("this host cannot take part in multicast at {}: {}: {}", describe(group), what, base::error_text(errno)),
                    info("use tcp:// with rank 0's own address, or file://"));
}

template <class T>
bool set(const FileDescriptor& fd, int level, int option, const T& value) {
  return ::setsockopt(fd.get(), level, option, &value, sizeof value) == 0;
}

FileDescriptor open_datagram(const SocketAddress& group) {
  FileDescriptor fd(::socket(group.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) refuse_system(group, "a socket");
  return fd;
}

/// Returns the source address of datagrams by the system's routes; empty: there is no route.
std::string routed_source(const SocketAddress& group) {
  const FileDescriptor probe = open_datagram(group);
  if (::connect(probe.get(), group.data(), group.size()) != 0) return {};
  return base::local_address(probe.get()).host();
}

InterfaceAddress choose(const SocketAddress& group, const std::optional<base::InterfaceRule>& rule) {
  auto all = base::interface_addresses();
  std::erase_if(all, [&](const InterfaceAddress& each) { return each.address.family() != group.family(); });
  if (rule) return rule->choose(all).front();
  const std::string source = routed_source(group);
  const auto usable = [](const InterfaceAddress& each) { return each.multicast && !each.loopback; };
  const auto routed = std::ranges::find_if(all, [&](const auto& each) { return usable(each) && each.address.host() == source; });
  if (routed != all.end()) return *routed;
  if (const auto first = std::ranges::find_if(all, usable); first != all.end()) return *first;
  if (const auto loopback = std::ranges::find_if(all, &InterfaceAddress::loopback); loopback != all.end()) return *loopback;
  errno = EADDRNOTAVAIL;
  refuse_system(group, "an interface");
}

// Adds the interface to an IPv6 address, since link-local addresses need one.
SocketAddress scoped(const SocketAddress& group, unsigned index) {
  if (group.family() != AF_INET6) return group;
  sockaddr_in6 address{};
  std::memcpy(&address, group.data(), sizeof address);
  if (address.sin6_scope_id == 0) address.sin6_scope_id = index;
  return {reinterpret_cast<const sockaddr*>(&address), sizeof address};
}

// Makes datagrams leave by the chosen interface, with TTL 1, and reach this host too.
bool prepare_sending(const FileDescriptor& out, int family, unsigned index) {
  const int one = 1;
  if (family == AF_INET) {
    ip_mreqn where{};
    where.imr_ifindex = static_cast<int>(index);
    return set(out, IPPROTO_IP, IP_MULTICAST_IF, where) && set(out, IPPROTO_IP, IP_MULTICAST_TTL, one) &&
           set(out, IPPROTO_IP, IP_MULTICAST_LOOP, one);
  }
  return set(out, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(index)) && set(out, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, one) &&
         set(out, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, one);
}

bool join_group(const FileDescriptor& in, const SocketAddress& group, unsigned index) {
  if (group.family() == AF_INET) {
    ip_mreqn membership{};
    membership.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(group.data())->sin_addr;
    membership.imr_ifindex = static_cast<int>(index);
    return set(in, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership);
  }
  ipv6_mreq membership{};
  membership.ipv6mr_multiaddr = reinterpret_cast<const sockaddr_in6*>(group.data())->sin6_addr;
  membership.ipv6mr_interface = index;
  return set(in, IPPROTO_IPV6, IPV6_JOIN_GROUP, membership);
}

constexpr std::string_view magic = "UNIGROUP";
constexpr std::uint16_t version = 2;
constexpr std::string_view code_label = "unisono multicast";

void put_text(base::ByteWriter& bytes, std::string_view text, std::size_t most) {
  text = text.substr(0, most);
  bytes.put(static_cast<std::uint16_t>(text.size())).raw(text);
}
std::string text_of(base::ByteReader& in) { return std::string(in.raw(in.get<std::uint16_t>())); }

// Bytes of the longest texts: all fields together fit a datagram.
constexpr std::size_t longest_group_name = 255, longest_field = 64, longest_refusal = 256;

std::string code_of(std::string_view content, std::string_view token, std::string_view place) {
  std::string text(content);
  text += place;
  return store::message_code(token, code_label, text);
}

// The text goes into messages, and into records whose fields end with a tab.
using base::printable;

bool read(base::ByteReader& in, Announcement& said) {
  said.nonce = text_of(in);
  said.number = in.get<std::uint64_t>();
  for (int echoes = in.get<std::uint8_t>(); echoes > 0 && in.ok(); --echoes) said.heard.push_back(in.get<std::uint64_t>());
  said.member.rank = in.get<std::int32_t>();
  said.world_size = in.get<std::int32_t>();
  said.port = in.get<std::uint16_t>();
  said.member.pid = in.get<std::int32_t>();
  said.member.host = printable(text_of(in));
  said.member.machine = printable(text_of(in));
  said.library = printable(text_of(in));
  said.job = text_of(in);
  said.agreed = in.get<std::uint8_t>() == 1;
  if (const auto kind = in.get<std::uint8_t>(); kind != 0)
    said.refusal = {kind == 1 ? Announcement::Refusal::Kind::duplicate : Announcement::Refusal::Kind::mismatch, printable(text_of(in))};
  return in.complete() && !said.nonce.empty() && said.world_size >= 1 && said.member.rank >= -1 && said.member.rank < said.world_size;
}

using base::Clock;

// A process that was silent for so many pauses counts as gone. It is known again when it announces itself again.
constexpr auto longest_silence = 20 * longest_pause;
// The number of other processes that are remembered beside as many as there are ranks: without a token, any process can claim to be one.
constexpr std::size_t most_strangers = 1024;

}  // namespace

MulticastSocket::MulticastSocket(const SocketAddress& group, const std::optional<base::InterfaceRule>& rule) {
  const InterfaceAddress chosen = choose(group, rule);
  interface_ = chosen.interface;
  const SocketAddress address = scoped(group, chosen.index);
  out_ = open_datagram(address);
  if (!prepare_sending(out_, address.family(), chosen.index)) refuse_system(address, chosen.interface);
  if (::connect(out_.get(), address.data(), address.size()) != 0) refuse_system(address, chosen.interface);
  own_ = base::local_address(out_.get());
  in_ = open_datagram(address);
  const int on = 1;
  // All processes of this host listen at the same port. Bound to the group's address, they receive only datagrams for it.
  if (!set(in_, SOL_SOCKET, SO_REUSEADDR, on) || ::bind(in_.get(), address.data(), address.size()) != 0) refuse_system(address, "listening");
  if (!join_group(in_, address, chosen.index)) refuse_system(address, "joining the group");
}

int MulticastSocket::send(std::string_view bytes) const { return ::send(out_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 ? errno : 0; }

std::optional<MulticastSocket::Datagram> MulticastSocket::receive() const {
  std::array<char, largest + 1> buffer;
  for (;;) {
    sockaddr_storage source{};
    socklen_t size = sizeof source;
    const ssize_t n = ::recvfrom(in_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source), &size);
    if (n >= 0) return Datagram{{buffer.data(), static_cast<std::size_t>(n)}, {reinterpret_cast<const sockaddr*>(&source), size}};
    if (errno != EINTR) return std::nullopt;
  }
}

std::string encode(const Announcement& said, std::string_view token, std::string_view place) {
  base::ByteWriter bytes;
  bytes.raw(magic).put(version);
  put_text(bytes, said.group_name, longest_group_name);
  put_text(bytes, said.nonce, longest_field);
  const std::size_t echoes = std::min(said.heard.size(), most_echoes);
  bytes.put(said.number).put(static_cast<std::uint8_t>(echoes));
  for (std::size_t i = 0; i < echoes; ++i) bytes.put(said.heard[i]);
  bytes.put(std::int32_t{said.member.rank}).put(std::int32_t{said.world_size}).put(said.port).put(std::int32_t{said.member.pid});
  for (const std::string* const text : {&said.member.host.get(), &said.member.machine.get(), &said.library, &said.job})
    put_text(bytes, *text, longest_field);
  bytes.put(static_cast<std::uint8_t>(said.agreed ? 1 : 0)).put(said.refusal ? static_cast<std::uint8_t>(said.refusal->kind) : std::uint8_t{0});
  if (said.refusal) put_text(bytes, said.refusal->text, longest_refusal);
  return bytes.raw(code_of(bytes.bytes(), token, place)).take();
}

Heard hear(std::string_view datagram, std::string_view group_name, std::string_view token, std::string_view place) {
  if (datagram.size() > MulticastSocket::largest || !datagram.starts_with(magic)) return {Hearing::nothing, {}};
  base::ByteReader head(datagram.substr(magic.size()));
  if (head.get<std::uint16_t>() != version) return {head.ok() ? Hearing::another_version : Hearing::nothing, {}};
  Announcement said;
  said.group_name = text_of(head);
  if (!head.ok()) return {Hearing::nothing, {}};
  if (said.group_name != group_name) return {Hearing::another_group, {}};
  const std::size_t code_size = token.empty() ? 0 : store::proof_size;
  if (head.rest().size() < code_size) return {Hearing::forged, {}};
  const std::string_view content = datagram.substr(0, datagram.size() - code_size);
  if (!store::same_proof(datagram.substr(content.size()), code_of(content, token, place))) return {Hearing::forged, {}};
  base::ByteReader in(head.rest().substr(0, head.rest().size() - code_size));
  if (!read(in, said)) return {token.empty() ? Hearing::forged : Hearing::nothing, {}};
  return {Hearing::ours, std::move(said)};
}

HeardProcesses::HeardProcesses(int world_size) : most_(static_cast<std::size_t>(world_size) + most_strangers) {}

bool HeardProcesses::is_old(const Announcement& said) const {
  if (const auto last = last_number_.find(said.nonce); last != last_number_.end() && said.number <= last->second) return true;
  const auto other = others_.find(said.nonce);
  return other != others_.end() && said.number <= other->second.said.number;
}

void HeardProcesses::leave_out(const std::string& nonce) {
  if (of_other_jobs_.size() >= most_) of_other_jobs_.clear();  // those that are still there announce themselves again
  of_other_jobs_.insert(nonce);
  others_.erase(nonce);
}

/// Forgets the process that was heard longest ago among those that have not proven to be of this run.
bool HeardProcesses::make_room_for(const std::string& nonce) {
  if (others_.size() < most_ || others_.contains(nonce)) return true;
  ++too_many_;
  auto oldest = others_.end();
  for (auto each = others_.begin(); each != others_.end(); ++each) {
    if (!each->second.proven && (oldest == others_.end() || each->second.heard_at < oldest->second.heard_at)) oldest = each;
  }
  if (oldest == others_.end()) return false;
  others_.erase(oldest);
  return true;
}

bool HeardProcesses::take(Announcement&& said, const base::SocketAddress& source, bool is_fresh) {
  Other& other = others_[said.nonce];
  const bool changed = other.times == 0 || (is_fresh && !other.proven) || other.said.job != said.job || other.said.agreed != said.agreed;
  other.proven = other.proven || is_fresh;
  if (other.proven) last_number_[said.nonce] = said.number;
  other.said = std::move(said);
  other.source = source;
  other.heard_at = Clock::now();
  ++other.times;
  return changed;
}

void HeardProcesses::forget_the_silent() {
  const auto now = Clock::now();
  std::erase_if(others_, [&](const auto& each) { return now - each.second.heard_at > longest_silence; });
}

const HeardProcesses::Other* HeardProcesses::find(const std::string& nonce) const {
  const auto found = others_.find(nonce);
  return found == others_.end() ? nullptr : &found->second;
}

std::vector<const Announcement*> HeardProcesses::proven() const {
  std::vector<const Announcement*> all;
  for (const auto& [nonce, other] : others_) {
    if (other.proven) all.push_back(&other.said);
  }
  return all;
}

std::vector<std::uint64_t> HeardProcesses::next_echoes() {
  std::vector<std::uint64_t> echoes;
  auto next = others_.upper_bound(repeated_);
  for (std::size_t i = std::min(others_.size(), most_echoes); i > 0; --i, ++next) {
    if (next == others_.end()) next = others_.begin();
    echoes.push_back(echo_of(next->first));
    repeated_ = next->first;
  }
  return echoes;
}

std::string HeardProcesses::describe_unproven() const {
  std::string text;
  const auto unproven = std::ranges::count_if(others_, [](const auto& each) { return !each.second.proven; });
  if (unproven > 0) text += fmt::format("; {} others have not heard this process, or are records of an earlier run", unproven);
  if (too_many_ > 0) text += fmt::format("; {} datagrams came when too many others had been heard", too_many_);
  return text;
}

}  // namespace unisono::rendezvous

#include "coordination/exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "transport/tcp/frame.h"
#include "unisono/error.h"

namespace unisono::coordination {
namespace {

// A message: the number of the call, whether a host is known to be crowded and whether callables are known to differ, the call's signature, and the
// contributions of the hosts in its window.
constexpr std::size_t head_bytes = transport::call_head_size;
static_assert(head_bytes == 4 * sizeof(std::uint64_t));
constexpr std::uint64_t crowded_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t callables_bit = std::uint64_t{1} << 62;

void put_head(std::byte* to, std::uint64_t number, const engines::Signature& signature) {
  for (const std::uint64_t word : {number, signature.what, signature.count, signature.extra}) {
    base::store_little_endian(word, to);
    to += sizeof word;
  }
}

std::uint64_t word_of(const std::string& message, std::size_t index) {
  return base::load_little_endian<std::uint64_t>(reinterpret_cast<const std::byte*>(message.data()) + index * sizeof(std::uint64_t));
}
std::uint64_t number_in(const std::string& message) { return word_of(message, 0) & ~(crowded_bit | callables_bit); }

std::vector<ExchangeRound> dissemination(int host, int hosts) {
  std::vector<ExchangeRound> rounds;
  const auto at = [&](int offset) { return ((host + offset) % hosts + hosts) % hosts; };
  for (int known = 1; known < hosts; known *= Exchange::radix) {  // known: the hosts that each host knows of
    ExchangeRound& round = rounds.emplace_back();
    for (int k = 1; k < Exchange::radix && k * known < hosts; ++k) {
      const int offset = k * known, count = std::min(known, hosts - offset);  // those that the receiver does not know yet
      round.sends.push_back({at(offset), host, count});
      round.receives.push_back({at(-offset), at(-offset), count});
    }
  }
  return rounds;
}

/// A place in a tree towards host 0, in which a host speaks for up to `radix` - 1 others on each level.
struct TreePlace {
  int parent = -1, end = 0;                        ///< this host speaks for those from itself to the one before `end`
  std::vector<std::pair<int, int>> children = {};  ///< each and its end; those of the smallest parts first

  TreePlace(int host, int hosts, int radix) : end(hosts) {
    for (int span = 1; span < hosts; span *= radix) {
      if (const int above = host - host % (span * radix); above != host) {
        parent = above;
        end = std::min(host + span, hosts);
        return;
      }
      for (int child = host + span; child < std::min(host + span * radix, hosts); child += span)
        children.emplace_back(child, std::min(child + span, hosts));
    }
  }
};

std::vector<ExchangeRound> tree(int host, int hosts, int radix_down) {
  const TreePlace up(host, hosts, Exchange::tree_radix), down(host, hosts, radix_down);
  const auto everything = [&](int with) { return ExchangeMove{with, hosts - 1, hosts}; };
  ExchangeRound gathering, across, handing_out;
  for (const auto& [child, end] : up.children) gathering.receives.push_back({child, end - 1, end - child});
  if (up.parent >= 0) across.sends.push_back({up.parent, up.end - 1, up.end - host});
  if (down.parent >= 0) across.receives.push_back(everything(down.parent));
  for (auto child = down.children.rbegin(); child != down.children.rend(); ++child) handing_out.sends.push_back(everything(child->first));
  return {gathering, across, handing_out};
}

}  // namespace

std::span<const std::byte> Carried::from(int rank, const GroupTopology& topology) const {
  const std::string& message = (*arrived)[static_cast<std::size_t>(topology.host_of(rank))];
  return std::as_bytes(std::span(message)).subspan(head_bytes);
}

ExchangeRound direct_round(int host, int hosts) {
  ExchangeRound round;
  for (int by = 1; by < hosts; ++by) {
    const int next = (host + by) % hosts, previous = (host - by + hosts) % hosts;
    round.sends.push_back({next, host, 1});
    round.receives.push_back({previous, previous, 1});
  }
  return round;
}

std::vector<ExchangeRound> exchange_rounds(int host, int hosts, bool by_tree, std::size_t bytes) {
  if (!by_tree) return dissemination(host, hosts);
  return tree(host, hosts, bytes > Exchange::few_bytes ? 2 : Exchange::tree_radix);
}

std::span<const std::byte> Carried::block_of(int rank) const {
  const std::size_t begin = std::min(static_cast<std::size_t>(rank) * each, own.size());
  return own.subspan(begin, std::min(each, own.size() - begin));
}

std::span<const std::byte> Carried::part_for(int rank) const {
  if (towards >= 0 && rank != towards) return {};
  return pattern == Pattern::blocks ? block_of(rank) : own;
}

std::size_t Carried::direct_bytes(int from, int to) const {
  if ((only >= 0 && from != only) || (towards >= 0 && to != towards)) return 0;
  return pattern == Pattern::blocks && only < 0 ? block_of(to).size() : each;
}

std::size_t Carried::begin_of_host(int host, const GroupTopology& topology) const {
  return only < 0 ? each * static_cast<std::size_t>(topology.first_place_of(host)) : 0;
}

std::size_t Carried::bytes_of_host(int host, const GroupTopology& topology) const {
  if (is_direct()) return 0;
  if (only >= 0) return topology.host_of(only) == host ? each : 0;
  return each * static_cast<std::size_t>(topology.first_place_of(host + 1) - topology.first_place_of(host));
}

Exchange::Exchange(const GroupTopology& topology, const ExchangeRoute& route, ExchangeMemory& memory, std::uint64_t number,
                   const engines::Signature& signature, const Carried* carried, std::byte* all)
    : topology_(topology),
      route_(route),
      memory_(memory),
      number_(number),
      signature_(signature),
      carried_(carried),
      all_(all),
      some_crowded_(memory.is_crowded),
      callables_differ_(engines::is_to_be_tried(signature)),
      has_come_(static_cast<std::size_t>(topology.host_count()), false) {
  has_come_[static_cast<std::size_t>(topology.host())] = true;
  if (is_direct() && memory_.direct.empty()) memory_.direct.push_back(direct_round(topology.host(), hosts()));
  if (!memory_.arrived.empty()) return;
  memory_.arrived.resize(static_cast<std::size_t>(hosts()));
  memory_.rounds = exchange_rounds(topology.host(), hosts(), false, 0);
  memory_.rounds_of_many = memory_.rounds;
}

std::span<const std::byte> Exchange::prepare(const ExchangeMove& move) {
  std::vector<std::byte>& message = memory_.message;
  message.resize(head_bytes);
  put_head(message.data(), number_ | (some_crowded_ ? crowded_bit : 0) | (callables_differ_ ? callables_bit : 0), signature_);
  std::span<const std::byte> block;
  if (is_direct()) {
    block = carried_->part_for(topology_.leaders[static_cast<std::size_t>(move.host)]);
  } else {
    for (int i = 0; carried_ != nullptr && i < move.count; ++i) {
      const int host = behind(move.first, i);
      message.insert(message.end(), memory_of(host), memory_of(host) + bytes_of(host));
    }
  }
  return block;
}

// Messages of earlier calls are left over where ranks have differed.
bool Exchange::fetch(int host) {
  std::string& message = arrived(host);
  for (;;) {
    if (message.empty() && !route_.mail->take(first_rank_of(host), route_.group, message)) return false;
    if (message.size() >= head_bytes && number_in(message) >= number_) return true;
    message.clear();
  }
}

Exchange::State Exchange::receive(const ExchangeMove& move) {
  if (!fetch(move.host)) return State::waiting;
  std::string& message = arrived(move.host);
  if (number_in(message) > number_) return State::waiting;  // that host has given up this call, as its ballot tells
  const engines::Signature theirs{.what = word_of(message, 1), .count = word_of(message, 2), .extra = word_of(message, 3)};
  if (!engines::fit(theirs, signature_)) {
    differing_.emplace(move.host, theirs);
    return State::differs;
  }
  const int sender = topology_.leaders[static_cast<std::size_t>(move.host)];
  std::size_t expected = head_bytes + (is_direct() ? carried_->direct_bytes(sender, topology_.rank) : 0);
  for (int i = 0; i < move.count && !is_direct(); ++i) expected += bytes_of(behind(move.first, i));
  if (message.size() != expected) {
    throw ProtocolError(fmt::format("rank {} sent {} bytes about a call, where {} were expected", sender, message.size(), expected));
  }
  callables_differ_ = callables_differ_ || theirs != signature_ || (word_of(message, 0) & callables_bit) != 0;
  some_crowded_ = some_crowded_ || (word_of(message, 0) & crowded_bit) != 0;
  if (is_direct()) {  // the message stays where it is until all have agreed
    has_come_[static_cast<std::size_t>(move.host)] = true;
    return State::agreed;
  }
  const char* next = message.data() + head_bytes;
  for (int i = 0; i < move.count; ++i) {
    const int host = behind(move.first, i);
    has_come_[static_cast<std::size_t>(host)] = true;
    if (carried_ == nullptr) continue;
    std::memcpy(memory_of(host), next, bytes_of(host));
    next += bytes_of(host);
  }
  message.clear();
  return State::agreed;
}

/// Receives what has come. Returns true where a call differs.
bool Exchange::receive_missing() {
  bool differs = false;
  std::erase_if(missing_, [&](std::size_t i) {
    const State state = differs ? State::waiting : receive(round().receives[i]);
    differs = differs || state == State::differs;
    return state == State::agreed;
  });
  return differs;
}

Exchange::State Exchange::advance() {
  while (!is_at_end()) {
    if (!std::exchange(has_begun_, true)) {
      for (const ExchangeMove& move : round().sends) {
        const std::span<const std::byte> block = prepare(move);
        route_.mail->post(first_rank_of(move.host), route_.group, memory_.message, block);
      }
      missing_.resize(round().receives.size());
      std::iota(missing_.begin(), missing_.end(), std::size_t{0});
    }
    if (receive_missing()) return State::differs;
    if (!missing_.empty()) {
      route_.mail->look(missing_.size() == 1 ? first_rank_of(round().receives[missing_.front()].host) : -1);
      if (receive_missing()) return State::differs;
    }
    if (!missing_.empty()) return State::waiting;
    ++round_;
    has_begun_ = false;
  }
  is_agreed_ = true;
  if (!std::exchange(memory_.is_settled, true) && some_crowded_ && hosts() >= least_hosts_of_tree) {
    memory_.rounds = exchange_rounds(topology_.host(), hosts(), true, 0);
    memory_.rounds_of_many = exchange_rounds(topology_.host(), hosts(), true, few_bytes + 1);
  }
  return State::agreed;
}

bool Exchange::look() {
  return !is_at_end() && std::ranges::any_of(missing_, [&](std::size_t i) {
    const int host = round().receives[i].host;
    return fetch(host) && number_in(arrived(host)) == number_;
  });
}

}  // namespace unisono::coordination

#include "transport/tcp/on_demand.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/switches.h"
#include "transport/tcp/meeting.h"
#include "unisono/detail/switches.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t address_group = base::stable_hash("addresses of the link");  ///< of the notices
constexpr std::size_t bytes_in_a_notice = std::size_t{60} << 10;
constexpr auto look_period = 100ms;
constexpr auto time_to_be_told = 1s;  ///< who waits for a rank that waits for others lets that one tell whom
constexpr const char* key_to_look_at = "link/secret";

/// What has come and was not read yet.
struct Inbox {
  std::mutex mutex;
  std::condition_variable condition;
  std::vector<std::pair<int, std::string>> texts;  ///< with their senders
};

/// Reads entries into the list, and returns true where they are the sender's last.
bool read_entries(std::string_view text, RankAddresses& addresses) {
  base::ByteReader entries(text);
  const bool is_last = entries.get<std::uint8_t>() != 0;
  while (entries.ok() && !entries.rest().empty()) {
    const auto rank = entries.get<std::uint32_t>();
    const std::string_view address = entries.text();
    if (!entries.ok() || rank >= addresses.size()) throw ProtocolError("a malformed list of addresses");
    addresses.set(static_cast<int>(rank), address);
  }
  return is_last;
}

std::vector<std::string> notices_with(const RankAddresses& addresses) {
  std::vector<std::string> notices;
  base::ByteWriter entries;
  const auto end = [&](bool is_last) {
    base::ByteWriter notice;
    notices.push_back(notice.put(static_cast<std::uint8_t>(is_last ? 1 : 0)).raw(entries.take()).take());
    entries = {};
  };
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const std::string address = addresses.of(static_cast<int>(rank));
    if (address.empty()) continue;
    entries.put(static_cast<std::uint32_t>(rank)).text(address);
    if (entries.bytes().size() > bytes_in_a_notice) end(false);
  }
  end(true);
  return notices;
}

constexpr std::chrono::seconds time_to_be_accepted(2);

RankAddresses own_address_alone(const Link::Options& options, const Acceptor& acceptor) {
  RankAddresses addresses(options.hosts.size());
  addresses.set(options.rank, address_text(options, acceptor));
  return addresses;
}

std::vector<int> others_than(int rank, std::size_t ranks) {
  std::vector<int> others;
  others.reserve(ranks);
  for (int r = 0; r < static_cast<int>(ranks); ++r) {
    if (r != rank) others.push_back(r);
  }
  return others;
}

}  // namespace

RankAddresses exchange_addresses(Link& link, const Link::Options& options, const WatchTree& tree, RankAddresses addresses,
                                 const base::Deadline& deadline,
                                 const std::function<void(int rank, std::uint64_t group, std::string_view text)>& notify) {
  const int parent = tree.parent(options.rank);
  std::set<int> silent(tree.children(options.rank).begin(), tree.children(options.rank).end());
  const auto inbox = std::make_shared<Inbox>();
  link.listen(address_group, [inbox](int from, std::string_view text) {
    const std::lock_guard lock(inbox->mutex);
    inbox->texts.emplace_back(from, text);
    inbox->condition.notify_one();
  });
  bool has_told_parent = false, is_complete = false;
  while (!is_complete) {
    if (silent.empty() && !std::exchange(has_told_parent, true)) {
      is_complete = parent < 0;
      for (const std::string& notice : parent < 0 ? std::vector<std::string>() : notices_with(addresses)) notify(parent, address_group, notice);
      continue;
    }
    std::unique_lock lock(inbox->mutex);
    inbox->condition.wait_for(lock, look_period, [&] { return !inbox->texts.empty(); });
    const auto texts = std::exchange(inbox->texts, {});
    lock.unlock();
    for (const auto& [from, text] : texts) {
      if (!read_entries(text, addresses)) continue;
      if (from == parent) is_complete = true;
      else silent.erase(from);
    }
    if (!texts.empty()) continue;
    base::check_interruption();
    if (const auto loss = link.lost()) throw PeerFailed(loss->text, {.culprit = loss->peer}, loss->cause);
    static_cast<void>(options.store->try_get(key_to_look_at));  // a watched store throws here if one of the ranks will not come
    const std::vector<int> missing = silent.empty() ? std::vector<int>{parent} : std::vector<int>(silent.begin(), silent.end());
    if (deadline.elapsed() < deadline.timeout() + time_to_be_told) continue;
    throw Timeout(fmt::format("rank {} was connected with rank {}, which did not tell within {} ms where the others are", options.rank,
                              fmt::join(missing, ", "), options.timeout.count()),
                  {}, missing);
  }
  link.listen(address_group, {});
  for (const int child : tree.children(options.rank)) {
    for (const std::string& notice : notices_with(addresses)) notify(child, address_group, notice);
  }
  return addresses;
}

OnDemand::OnDemand(const Link::Options& options, WatchTree tree, Connections& connections, Caller caller, Acceptor acceptor, Connector::Owner owner)
    : options_(options),
      connections_(connections),
      membership_(options.rank, std::move(tree)),
      relay_(connections, membership_, *this),
      addresses_(own_address_alone(options, acceptor)),
      connector_(std::move(caller), std::move(acceptor), others_than(options.rank, options.hosts.size()), options.timeout, std::move(owner)) {}

std::string OnDemand::address_of(int rank) const {
  const std::string address = addresses_.of(rank);
  return address.empty() ? "an address that is not known yet"
                         : base::describe(parse_address(address, options_.address, fmt::format("address of rank {}", rank)));
}

Peer& OnDemand::peer_of(int rank) {
  if (Peer* const peer = connections_.find(rank)) return *peer;
  Peer& peer = connections_.add(rank, address_of(rank));
  if (absence_of(rank) == Absence::left) peer.mark_as_left();
  if (absence_of(rank) == Absence::lost) {
    const Departure& loss = membership_.departures().at(rank);
    peer.lose(*loss.lost, loss.text);
  }
  return peer;
}

void OnDemand::announce(std::uint64_t group, std::span<const int> members, std::string_view text, Link::Announcement what) {
  if (is_leaving_ && what != Link::Announcement::goodbye) return;
  relay_.announce(group, members, text, what, members.size() <= options_.most_eager);
}

// ---- the making of connections ----------------------------------------------------------------------------------

bool OnDemand::wants(int rank) const {
  const Peer* const peer = connections_.find(rank);
  return !membership_.is_gone(rank) && (peer == nullptr || !peer->was_connected());
}

bool OnDemand::accepts(int rank) {
  if (!wants(rank)) return false;
  accepted_[rank] = base::Clock::now();
  return true;
}

void OnDemand::dial(int rank, Connector::Patience patience) {
  const std::string address = addresses_.of(rank);
  if (is_leaving_ || address.empty()) return;
  dialled_.insert(rank);
  connector_.dial(rank, parse_address(address, options_.address, fmt::format("address of rank {}", rank)), patience);
}

void OnDemand::need(const Peer& peer) {
  if (peer.was_connected() || peer.loss() || peer.has_left()) return;
  if (needed_.insert(peer.rank()).second) dial(peer.rank(), Connector::Patience::usual);
}

void OnDemand::await(Peer& peer) {
  if (!peer.was_connected() && !std::exchange(peer.is_awaited, true)) awaited_.insert(peer.rank());
}

void OnDemand::forget_attempts_at(int rank) {
  needed_.erase(rank);
  dialled_.erase(rank);
  accepted_.erase(rank);
}

void OnDemand::on_connected(int rank, Established connection) {
  if (!wants(rank)) return;
  forget_attempts_at(rank);
  if (dialled_parent_ == rank) dialled_parent_ = -1;
  Peer& peer = peer_of(rank);
  connections_.open(peer, std::move(connection));
  relay_.send_history(peer);
  if (is_leaving_) {
    peer.send_goodbye(own_departure());
  } else {
    peer.send_waiting();
    relay_.send_held_back();
  }
  relay_.handle_postponed();
  connections_.pump(peer, base::Clock::now());  // bytes right behind a handshake were read with it, and wake nobody
  relay_.handle_reports();
}

void OnDemand::on_failed(int rank, const std::string& why) {
  if (!wants(rank)) return;
  forget_attempts_at(rank);
  relay_.handle_postponed();  // its neighbours may have said that it has left
  Peer& peer = peer_of(rank);
  if (wants(rank) && peer.needs_connection()) {
    connections_.record(peer.lose(PeerFailed::disconnected, why));
  } else {
    base::debug(why);
    if (wants(rank)) {
      membership_.pass_over(rank);
      attach();
    }
  }
  relay_.handle_postponed();
  relay_.send_held_back();
  relay_.handle_reports();
}

// ---- the tree ---------------------------------------------------------------------------------------------------

// A rank above that refuses has left or died, which its own neighbours tell.
void OnDemand::attach() {
  if (is_leaving_) return;
  const int parent = membership_.parent();
  if (parent == dialled_parent_) return;
  dialled_parent_ = -1;
  if (parent < 0 || peer_of(parent).was_connected()) return;
  dialled_parent_ = parent;
  dial(parent, Connector::Patience::none);
}

void OnDemand::on_departure(const Departure& departure) {
  const int rank = departure.rank;
  forget_attempts_at(rank);
  connector_.forget(rank);
  connections_.shared().changed = true;
  Peer* const peer = connections_.find(rank);
  const bool is_first_hand = peer != nullptr && peer->was_connected();
  if (!departure.lost) {
    if (peer != nullptr && !is_first_hand) peer->mark_as_left();
    return;
  }
  if (!is_first_hand) {
    if (peer != nullptr) peer->lose(*departure.lost, departure.text);
    connections_.record_reported({rank, *departure.lost, departure.text});
  }
  expect_orphans_of(rank);
  attach();
}

// Where this rank has a lost rank's place, the ranks below it connect with this one. Those that do not are lost as well: nobody else would notice.
void OnDemand::expect_orphans_of(int rank) {
  const auto until = base::Clock::now() + detail::silence_limit();
  for (const int orphan : membership_.adopted_from(rank)) {
    const Peer* const peer = connections_.find(orphan);
    if (peer == nullptr || !peer->was_connected()) orphans_.emplace(orphan, until);
  }
}

void OnDemand::lose_late_orphans(Time now) {
  for (const auto& [orphan, until] : std::exchange(orphans_, {})) {
    if (!wants(orphan)) continue;
    if (now < until) {
      orphans_.emplace(orphan, until);
      continue;
    }
    relay_.record({.rank = orphan,
                   .lost = PeerFailed::silent,
                   .text = fmt::format("rank {} ({}) has not connected with rank {} since the rank that watched it was lost", orphan,
                                       address_of(orphan), options_.rank)});
  }
}

void OnDemand::tick(Time now) {
  for (const int rank : std::exchange(awaited_, {})) {
    if (wants(rank)) dial(rank, Connector::Patience::usual);
  }
  std::erase_if(accepted_, [&](const auto& rank) { return now - rank.second > time_to_be_accepted; });  // that rank is gone since
  relay_.handle_postponed();
  lose_late_orphans(now);
  attach();
  relay_.handle_reports();
}

}  // namespace unisono::transport

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/connections.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/link.h"
#include "transport/tcp/rank_addresses.h"
#include "transport/tcp/relay.h"

namespace unisono::transport {

/// Learns where all ranks listen, by the tree; collective. Each rank tells its parent the addresses of all ranks below it, and the first rank sends
/// the list down again. A rank receives the list once, whatever their number. `addresses` has this rank's own; `notify` sends a notice to a neighbour
/// in the tree. Throws Timeout, PeerFailed and ProtocolError.
RankAddresses exchange_addresses(Link& link, const Link::Options& options, const WatchTree& tree, RankAddresses addresses,
                                 const base::Deadline& deadline,
                                 const std::function<void(int rank, std::uint64_t group, std::string_view text)>& notify);

/// What a link has beside its connections where it does not connect with all ranks at once: it connects with its neighbours in a tree (WatchTree),
/// and with others when a message is first sent to them or awaited from them. Where a rank is gone, those below it connect with the next one above.
/// Guarded by the link's mutex, but for `stop`.
class OnDemand final : public ConnectionObserver, private RelayOwner {
 public:
  using Time = base::Clock::time_point;
  /// `owner` is called by the connector's thread.
  OnDemand(const Link::Options& options, WatchTree tree, Connections& connections, Caller caller, Acceptor acceptor, Connector::Owner owner);

  // ---- other ranks
  Absence absence_of(int rank) const { return membership_.absence_of(rank); }
  /// Returns where a rank listens, for people.
  std::string address_of(int rank) const;
  const WatchTree& tree() const { return membership_.tree(); }
  const RankAddresses& addresses() const { return addresses_; }
  void set_addresses(RankAddresses addresses) { addresses_ = std::move(addresses); }

  // ---- what the link's users do
  /// Returns the peer, whether it is connected or not.
  Peer& peer_of(int rank);
  /// Called where a message for that rank was sent: it waits for a connection.
  void need(const Peer& peer);
  /// Called where a message of that rank is waited for. As a rule that rank connects; where it does not, this one does at the next tick, and sees
  /// whether it is there.
  void await(Peer& peer);
  void announce(std::uint64_t group, std::span<const int> members, std::string_view text, Link::Announcement what);

  // ---- what the connector's thread reports
  /// Returns true for a rank with which a connection would be used.
  bool wants(int rank) const;
  /// Does the same for a rank that is told so.
  bool accepts(int rank);
  void on_connected(int rank, Established connection);
  void on_failed(int rank, const std::string& why);

  /// Called with each heartbeat.
  void tick(Time now);
  void on_loss(const Link::Loss& loss) override { relay_.record({.rank = loss.peer, .lost = loss.cause, .text = loss.text}); }
  void on_reports() override { relay_.handle_reports(); }

  // ---- the end
  /// Connects with the rank above, if there is none.
  void attach();
  /// Returns true where others have been told all, as far as this rank can.
  bool has_told_all() const { return !relay_.has_held_back() && dialled_parent_ < 0; }
  /// Ends the making of connections: ranks that connect with this one learn that it leaves.
  void begin_goodbye() { is_leaving_ = true; }
  std::string own_departure() const { return relay_.own_departure(); }
  /// Ends the connector's thread; called without the mutex.
  void stop() noexcept { connector_.stop(); }

 private:
  bool may_be_connected_soon(int rank) const override { return dialled_.contains(rank) || accepted_.contains(rank); }
  bool has_waiting_messages() const override { return !needed_.empty(); }
  void on_departure(const Departure& departure) override;
  void dial(int rank, Connector::Patience patience);
  void forget_attempts_at(int rank);
  void expect_orphans_of(int rank);
  void lose_late_orphans(Time now);

  const Link::Options& options_;
  Connections& connections_;
  Membership membership_;
  Relay relay_;
  RankAddresses addresses_;
  int dialled_parent_ = -1;       ///< the rank above that is being connected with
  std::map<int, Time> orphans_;   ///< ranks that must connect with this one until then, which has their parent's place now
  std::set<int> needed_;          ///< ranks that are being connected with, and for which messages wait
  std::set<int> dialled_;         ///< all ranks that are being connected with
  std::map<int, Time> accepted_;  ///< ranks that were told that they are accepted, and whose connection is not there yet
  std::set<int> awaited_;         ///< ranks without a connection, of which a message is waited for
  bool is_leaving_ = false;
  Connector connector_;  ///< the last member: its thread uses the others
};

}  // namespace unisono::transport

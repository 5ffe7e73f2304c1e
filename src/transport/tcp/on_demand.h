#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/peer.h"
#include "transport/tcp/spread.h"
#include "transport/tcp/watch_tree.h"

namespace unisono::transport {

/// What a rank has heard of another one, from itself or from others.
enum class Heard : std::uint8_t { nothing, left, lost };

/// What a link has beside its connections where it does not connect with all ranks at once (link_on_demand.cpp).
struct OnDemand {
  explicit OnDemand(WatchTree watch_tree)
      : tree(std::move(watch_tree)),
        addresses(static_cast<std::size_t>(tree.size())),
        heard(static_cast<std::size_t>(tree.size()), Heard::nothing),
        passed_over(static_cast<std::size_t>(tree.size()), false) {}

  const WatchTree tree;
  std::vector<std::string> addresses;               ///< by rank, "10.0.0.2 41234"; empty: not known yet
  std::vector<Heard> heard;                         ///< by rank
  std::map<int, Departure> departures;              ///< of those that are gone
  Departure farewell;                               ///< this rank's own
  std::vector<int> fresh;                           ///< ranks that were heard of last, and were not handed on yet
  std::vector<bool> passed_over;                    ///< by rank, one above this rank that did not answer, which may have left
  int dialled_parent = -1;                          ///< the rank above that is being connected with
  std::map<int, base::Clock::time_point> orphans;   ///< ranks that must connect with this one until then, which has their parent's place now
  std::set<int> needed;                             ///< ranks that are being connected with, and for which messages wait
  std::set<int> dialled;                            ///< all ranks that are being connected with
  std::map<int, base::Clock::time_point> accepted;  ///< ranks that were told that they are accepted, and whose connection is not there yet
  std::set<int> awaited;                            ///< ranks without a connection, of which a message is waited for
  SpreadLog spreads;
  std::uint64_t last_spread = 0;
  std::deque<std::pair<std::uint64_t, SpreadNotice>> held_back;  ///< own notices that wait for messages before them, with their groups
  bool said_goodbye = false;
  std::vector<Word> undecided;           ///< notices of ranks that may be connected with this one, and tell it themselves then
  std::unique_ptr<Connector> connector;  ///< the last member: its thread uses the others
};

}  // namespace unisono::transport

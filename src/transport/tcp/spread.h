#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/tcp/frame.h"
#include "transport/tcp/link.h"

namespace unisono::transport {

/// A notice that ranks hand on to their neighbours, because its sender is not connected with all ranks that it is for.
struct SpreadNotice {
  int origin = -1;
  std::uint64_t key = 0;     ///< by which a rank knows a notice of the group that it has had already
  bool goes_on = true;       ///< ranks hand it on; else it is for those alone that the origin is connected with
  std::string members = {};  ///< as members_text() has them; empty: it is for all ranks
  std::string text = {};

  bool is_for(int rank) const;
};
/// The key of the notice that a group is over: whichever comes first is the only one that is handed on.
inline constexpr std::uint64_t key_of_failure = 1;

std::string encode(const SpreadNotice& notice);
/// Throws ProtocolError where it is none.
SpreadNotice decode_spread(std::string_view payload, int ranks);
/// Returns a text for these ranks of the world: their numbers, or a bit for each rank where that is shorter; empty where they are all ranks.
std::string members_text(std::span<const int> members, std::size_t ranks);

/// A spread notice as it is handed on: its group, and what encode(const SpreadNotice&) returns.
using SpreadEntry = std::pair<std::uint64_t, std::string>;

/// What a rank tells of one that is gone.
struct Departure {
  int rank = -1;
  std::optional<PeerFailed::Cause> lost = {};  ///< none: it has left
  std::string text = {};                       ///< how it was lost, or its last notice
  std::uint64_t group = 0;                     ///< for which that notice is
  std::vector<SpreadEntry> notices = {};       ///< that it left other groups
};
/// The bytes of a text, the rest of which is cut off, and of an encoded departure.
inline constexpr std::size_t longest_reason = 512, longest_departure = longest_spread / 4;
std::string encode(std::span<const Departure> departures);
/// Throws ProtocolError where it is none.
std::vector<Departure> decode_departures(std::string_view payload, int ranks);

/// The notices that a rank has had lately: it hands each on once. Those that a new neighbour may have missed are kept.
class SpreadLog {
 public:
  /// Returns true the first time that it is asked for this notice of the group.
  bool is_new(std::uint64_t group, std::uint64_t key);
  void keep(std::uint64_t group, std::string payload, bool is_own);
  /// Returns what a new neighbour is told.
  std::vector<SpreadEntry> kept() const;

 private:
  static constexpr std::size_t most_known = std::size_t{1} << 16, most_kept = 64;
  std::set<std::pair<std::uint64_t, std::uint64_t>> known_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_;  ///< of those, the oldest first
  std::deque<SpreadEntry> own_, others_;
};

}  // namespace unisono::transport

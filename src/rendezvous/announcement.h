#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// What a process says of itself to a multicast group: a magic word and a version, fields with their lengths in front, and a code (HMAC-SHA256 under
/// the job's token) over all of it. Nothing in it is secret.
struct Announcement {
  std::string group_name;                 ///< at most 255 bytes
  std::string nonce;                      ///< tells two processes apart that say the same of themselves
  std::uint64_t number = 0;               ///< of this announcement among its process's own: what is played back later is known by it
  std::vector<std::uint64_t> heard = {};  ///< echoes of others, a few of them at a time; see echo_of
  Member member;                          ///< rank -1: it takes any
  int world_size = 1;
  std::uint16_t port = 0;  ///< where it would serve the store; 0: it cannot be rank 0
  std::string library;     ///< its version
  std::string job;         ///< names the complete job that it sees; empty: it does not see one
  bool agreed = false;     ///< everybody in that job has named the same one
  /// Why there can be no job.
  struct Refusal {
    enum class Kind : std::uint8_t { duplicate = 1, mismatch = 2 };
    Kind kind = Kind::duplicate;
    std::string text;
  };
  std::optional<Refusal> refusal;
};

/// What proves to the process of this nonce, which drew it at random, that whoever says it has heard it: no record of an earlier run can.
inline std::uint64_t echo_of(std::string_view nonce) { return base::stable_hash(nonce); }
inline constexpr std::size_t most_echoes = 32;  ///< in one datagram

/// `place` is where the announcement is made: one that was made elsewhere is not heard here. Fits a datagram.
std::string encode(const Announcement& announcement, std::string_view token, std::string_view place);

enum class Hearing { ours, another_group, another_version, forged, nothing };
struct Heard {
  Hearing hearing = Hearing::nothing;
  Announcement announcement;  ///< of `ours`
};
/// Trusts nothing that it reads. Other groups' announcements are told by their name alone, which is why they need not be of our token.
Heard hear(std::string_view datagram, std::string_view group_name, std::string_view token, std::string_view place);

}  // namespace unisono::rendezvous

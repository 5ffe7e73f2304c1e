#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// The announcement of a process to a multicast group: a magic word and a version, fields with their lengths in front, and a code (HMAC-SHA256 under
/// the job's token) over all of it. It contains no secret.
struct Announcement {
  std::string group_name;                 ///< at most 255 bytes
  std::string nonce;                      ///< tells apart two processes with the same fields
  std::uint64_t number = 0;               ///< counts the announcements of a process, so that recorded ones are recognised
  std::vector<std::uint64_t> heard = {};  ///< echoes of other processes, a few of them at a time; see echo_of
  Member member;                          ///< rank -1: it takes any
  int world_size = 1;
  std::uint16_t port = 0;  ///< the port of its store, if it becomes rank 0; 0: it cannot be rank 0
  std::string library;     ///< its version
  std::string job;         ///< names the complete job that it sees; empty: it does not see one
  bool agreed = false;     ///< all processes of that job have named the same one
  /// The reason why there can be no job.
  struct Refusal {
    enum class Kind : std::uint8_t { duplicate = 1, mismatch = 2 };
    Kind kind = Kind::duplicate;
    std::string text;
  };
  std::optional<Refusal> refusal;
};

/// Returns the proof that a process has heard the one with this nonce. The nonce was drawn at random, so no recording of an earlier run contains its
/// echo.
inline std::uint64_t echo_of(std::string_view nonce) { return base::stable_hash(nonce); }
inline constexpr std::size_t most_echoes = 32;  ///< in one datagram

/// Makes the datagram. `place` is the multicast address: an announcement made at another one is rejected here.
std::string encode(const Announcement& announcement, std::string_view token, std::string_view place);

enum class Hearing { ours, another_group, another_version, forged, nothing };
struct Heard {
  Hearing hearing = Hearing::nothing;
  Announcement announcement;  ///< of `ours`
};
/// Reads a datagram, whatever its content. Announcements of other groups are recognised by the group's name alone, since they may be made under
/// another token.
Heard hear(std::string_view datagram, std::string_view group_name, std::string_view token, std::string_view place);

}  // namespace unisono::rendezvous

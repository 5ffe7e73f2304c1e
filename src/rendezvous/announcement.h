#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/hash.h"
#include "base/interfaces.h"
#include "base/socket.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// Sends and receives datagrams of a multicast group. They stay in the local network (TTL 1), and other processes of this host receive them.
class MulticastSocket {
 public:
  static constexpr std::size_t largest = 1200;  ///< bytes of a datagram, which fits every network without fragmentation

  /// Uses the interface that the rule prefers; without a rule the one of the system's routes, else the first one that can, else loopback. Throws
  /// InvalidArgument, which names the existing interfaces, where the rule admits none, and Unsupported where this host has no multicast of that
  /// family.
  MulticastSocket(const base::SocketAddress& group, const std::optional<base::InterfaceRule>& rule);

  /// Returns the source address of the datagrams sent.
  const base::SocketAddress& own_address() const { return own_; }
  const std::string& interface() const { return interface_; }
  int fd() const { return in_.get(); }

  /// Returns 0, or the errno of the failed call. A datagram may be lost in any case.
  int send(std::string_view bytes) const;
  struct Datagram {
    std::string bytes;
    base::SocketAddress source;
  };
  /// Returns empty where no datagram has come. A datagram longer than `largest` is cut to one byte more than that.
  std::optional<Datagram> receive() const;

 private:
  base::FileDescriptor in_, out_;
  base::SocketAddress own_;
  std::string interface_;
};

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

/// The time between two announcements of a process, at the most.
inline constexpr auto longest_pause = std::chrono::milliseconds(200);

/// The other processes at a multicast address (multicast_discovery.h), as far as they have been heard.
class HeardProcesses {
 public:
  struct Other {
    Announcement said;
    base::SocketAddress source;
    base::Clock::time_point heard_at;
    int times = 0;
    bool proven = false;  // it has heard us in this run
  };

  explicit HeardProcesses(int world_size);

  /// Returns true for an announcement that is not later than the last known one of its process: recordings of earlier ones do not count.
  bool is_old(const Announcement& said) const;
  /// Leaves a process out from now on: the job that it has agreed to is complete without this one.
  void leave_out(const std::string& nonce);
  bool is_left_out(const std::string& nonce) const { return of_other_jobs_.contains(nonce); }
  /// Makes room for a process where it is not known yet. Returns false where there is none.
  bool make_room_for(const std::string& nonce);
  /// Takes an announcement. `is_fresh`: its process has heard this one. Returns true where it brings something new.
  bool take(Announcement&& said, const base::SocketAddress& source, bool is_fresh);
  void forget_the_silent();

  /// Returns null where the process is not known.
  const Other* find(const std::string& nonce) const;
  /// Returns what those have said that have heard this process in this run.
  std::vector<const Announcement*> proven() const;
  /// Returns the echoes of others in turn, as many as fit a datagram.
  std::vector<std::uint64_t> next_echoes();
  /// Returns sentences about those that are no members: "; 2 others have not heard this process, or are records of an earlier run".
  std::string describe_unproven() const;
  std::size_t of_other_jobs() const { return of_other_jobs_.size(); }

 private:
  const std::size_t most_;
  std::map<std::string, Other> others_;               // by nonce
  std::map<std::string, std::uint64_t> last_number_;  // by nonce, of those that were proven at some time
  std::string repeated_;                              // the last of the others that was repeated
  std::set<std::string> of_other_jobs_;               // nonces
  std::size_t too_many_ = 0;
};

}  // namespace unisono::rendezvous

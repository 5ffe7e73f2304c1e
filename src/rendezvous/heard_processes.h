#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "rendezvous/announcement.h"

namespace unisono::rendezvous {

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

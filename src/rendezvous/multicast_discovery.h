#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/thread.h"
#include "rendezvous/announcement.h"
#include "rendezvous/multicast_socket.h"
#include "rendezvous/reach.h"

namespace unisono::rendezvous {

// The meeting at a multicast address, where nobody knows anybody. Every process announces itself again and again and listens. Who has heard as many
// as there are ranks names that job (a digest of all who are in it), and says so too. When all who are in it have named the same job, it stands:
// ranks that were given stay, the others fill the gaps in the order of host, process and nonce; rank 0 serves a store at a port that it opened before
// it first spoke, and the others come to it. Announcements go on until the store has seen everybody, so that nobody misses the last one.
//
// Two that claim the same rank, or differ about the size, end the job for everybody, and go on saying so for half a second.
//
// What was recorded earlier, and is played back, does not count: every announcement repeats what drew the others at random for this run (a few of
// them at a time), and who has not repeated what we have drawn is none of us yet, nor is its refusal believed. Announcements are numbered, and an old
// one is not listened to.
//
// Other jobs at the same address have other names. What a job before ours still says is told apart by the nonces: it names a job that we have never
// named. Who falls silent before the job stands is forgotten, so that it can be started again.
class MulticastDiscovery final : public Meeting {
 public:
  struct Request {
    base::SocketAddress address;
    std::string group_name;
    std::optional<int> rank;
    int world_size = 1;
  };
  /// Returns when the job stands. InvalidArgument for a rank that two have, Mismatch where the sizes differ, Timeout with how many of how many came.
  MulticastDiscovery(Request request, const base::Environment& environment, const base::Deadline& deadline);
  ~MulticastDiscovery() override;
  MulticastDiscovery(const MulticastDiscovery&) = delete;
  MulticastDiscovery& operator=(const MulticastDiscovery&) = delete;

  int rank() const { return rank_; }

  std::shared_ptr<store::Client> serve() const override;
  std::shared_ptr<store::Client> connect(const base::Deadline& deadline) const override;
  std::string place() const override;

 private:
  using Time = base::Clock::time_point;
  struct Other {
    Announcement said;
    base::SocketAddress source;
    Time heard_at;
    int times = 0;
    bool proven = false;  // it has heard us in this run
  };
  /// How often the two had been heard when a quarrel between them was first seen.
  using Quarrel = std::pair<int, int>;

  void gather(const base::Deadline& deadline);
  void announce();
  bool listen();
  bool hear_one(const MulticastSocket::Datagram& datagram);
  bool is_old(const Announcement& said) const;
  bool make_room();
  void repeat_others();
  void forget_the_silent();
  void look_for_quarrels();
  void quarrel(Announcement::Refusal::Kind kind, const Announcement& first, const Announcement& second);
  [[noreturn]] void refuse(const Announcement::Refusal& refusal) const;
  bool name_job();
  bool all_agree() const;
  void settle();
  std::vector<const Announcement*> everybody() const;
  std::vector<const Announcement*> chosen() const;
  [[noreturn]] void give_up(const base::Deadline& deadline) const;
  void keep_announcing();

  const Request request_;
  const std::string token_, place_;
  MulticastSocket socket_;
  base::FileDescriptor listening_;
  Announcement self_;
  std::map<std::string, Other> others_;                 // by nonce
  std::map<std::string, std::uint64_t> last_number_;    // by nonce, of those that were proven at some time
  std::string repeated_;                                // the last of the others that was repeated
  std::map<std::string, std::set<std::string>> named_;  // the jobs that we have named, and who is in them
  std::string standing_;                                // the one of them of which we have heard that it stands
  std::set<std::string> of_other_jobs_;                 // nonces
  std::map<std::pair<std::string, std::string>, Quarrel> quarrels_;
  std::size_t forged_ = 0, nothing_ = 0, other_versions_ = 0, too_many_ = 0;
  int send_error_ = 0;

  int rank_ = -1;
  base::SocketAddress server_;
  base::FileDescriptor wake_;
  base::Thread announcer_;
};

}  // namespace unisono::rendezvous

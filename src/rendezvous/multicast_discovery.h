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
#include "base/tls_library.h"
#include "rendezvous/announcement.h"
#include "rendezvous/reach.h"

namespace unisono::rendezvous {

// The meeting at a multicast address, where no process knows another. Every process announces itself repeatedly and listens. A process that has heard
// as many as there are ranks names that job (a digest of all its processes), and announces the name. When all processes of the job have named the
// same one, the job is agreed: given ranks stay, the others fill the gaps in the order of host, process and nonce. Rank 0 serves a store at a port
// that it opened before its first announcement, and the others connect to it. Announcements go on until all have come to the store, so that none
// misses the last one.
//
// Two processes that claim the same rank, or differ about the size, end the job for all, and announce this for half a second.
//
// Recordings that are played back do not count. Every announcement repeats the nonces that the others drew at random for this run (a few at a time).
// A process that has not repeated ours is not accepted yet, nor is its refusal believed. Announcements are numbered, and older ones are ignored.
//
// Other jobs at the same address have other names. Announcements of an earlier job name a job that this process has never named. A process that
// becomes silent before the job is agreed is forgotten, so that it can be started again.
class MulticastDiscovery {
 public:
  struct Request {
    base::SocketAddress address;
    std::string group_name;
    std::optional<int> rank;
    int world_size = 1;
  };
  /// Returns when the job is agreed. Throws InvalidArgument for a rank that two processes have, Mismatch where the sizes differ, and Timeout with the
  /// number of processes that came.
  MulticastDiscovery(Request request, const base::Environment& environment, const base::Deadline& deadline);
  ~MulticastDiscovery();
  MulticastDiscovery(const MulticastDiscovery&) = delete;
  MulticastDiscovery& operator=(const MulticastDiscovery&) = delete;

  int rank() const { return rank_; }

  /// Returns the place that was agreed, for the lifetime of this object.
  Meeting meeting() const;

 private:
  /// The number of announcements of both processes when a conflict between them was first seen.
  using Quarrel = std::pair<int, int>;

  void gather(const base::Deadline& deadline);
  void announce();
  bool listen();
  bool hear_one(const MulticastSocket::Datagram& datagram);
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
  const base::Secret token_;
  const std::shared_ptr<const base::TlsContext> tls_;
  const std::string place_;
  MulticastSocket socket_;
  base::FileDescriptor listening_;
  Announcement self_;
  HeardProcesses others_;
  std::map<std::string, std::set<std::string>> named_;  // the jobs that this process has named, with their members
  std::string standing_;                                // the job among them that is known to be agreed
  std::map<std::pair<std::string, std::string>, Quarrel> quarrels_;
  std::size_t forged_ = 0, nothing_ = 0, other_versions_ = 0;
  int send_error_ = 0;

  int rank_ = -1;
  base::SocketAddress server_;
  base::FileDescriptor wake_;
  base::Thread announcer_;
};

}  // namespace unisono::rendezvous

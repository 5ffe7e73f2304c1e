#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "launch/hosts/open_place.h"
#include "launch/hosts/seat_watch.h"
#include "launch/job_options.h"
#include "rendezvous/join.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// The meeting of the launchers of several hosts in etcd, instead of at an address that all of them were given. There they learn where host 0 serves
/// the launchers' store. Of a fixed number of hosts each gets its number there, unless it has one; of MIN to MAX hosts one becomes host 0, and takes
/// the others in by itself (admission.h). It stays until the job is over, so that a second job at the same place is refused or comes in.
class StoreMeeting {
 public:
  /// Waits for all launchers, or for host 0, and sets number, address and port of the options. Throws what rendezvous::join, OpenPlace and the store
  /// throw.
  explicit StoreMeeting(JobOptions& options);
  ~StoreMeeting();
  StoreMeeting(const StoreMeeting&) = delete;
  StoreMeeting& operator=(const StoreMeeting&) = delete;

  /// Watches over the place of this launcher: `tell` hears why another job has it, if so. Null where this launcher has none. The object must not
  /// outlive this one.
  std::unique_ptr<SeatWatch> watch(std::function<void(const std::string&)> tell);

 private:
  void meet_fixed(JobOptions& options, const rendezvous::JoinRequest& request, const base::Deadline& deadline);
  void meet_open(JobOptions& options, OpenPlace& place, const base::Deadline& deadline);
  std::string displaced() const;

  std::shared_ptr<store::etcd::KeysInEtcd> store_;
  std::string seat_;                                          ///< set to `left` at the end; empty: none
  std::function<std::optional<std::string>()> look_at_seat_;  ///< returns why it is another job's, if it is
};

}  // namespace unisono::launcher

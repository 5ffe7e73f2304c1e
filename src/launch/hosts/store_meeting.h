#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/thread.h"
#include "launch/job_options.h"
#include "rendezvous/join.h"
#include "store/etcd.h"

namespace unisono::launcher {

/// Looks again and again whether a launcher still has its place in etcd, for the lifetime of the object. One that was stopped for longer than
/// the ttl of the URL, or cut off from etcd, counts as dead there: another launcher may have begun a job at the same place meanwhile.
class SeatWatch {
 public:
  /// `look` returns why the place is another one's, if it is. `tell` is then told so at every look, by another thread.
  SeatWatch(std::shared_ptr<store::etcd::KeysInEtcd> store, std::function<std::optional<std::string>()> look,
            std::function<void(const std::string&)> tell);
  ~SeatWatch();
  SeatWatch(const SeatWatch&) = delete;
  SeatWatch& operator=(const SeatWatch&) = delete;

 private:
  void watch();

  const std::shared_ptr<store::etcd::KeysInEtcd> store_;
  const std::function<std::optional<std::string>()> look_;
  const std::function<void(const std::string&)> tell_;
  std::mutex mutex_;  ///< guards the next one
  bool stop_ = false;
  std::condition_variable stopping_;
  base::Thread thread_;
};

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

  /// Watches over the place of this launcher: `tell` hears why another job has it, if so. Null if this launcher has none. The object must not
  /// outlive this one.
  std::unique_ptr<SeatWatch> watch(std::function<void(const std::string&)> tell);

 private:
  class OpenPlace;
  void meet_fixed(JobOptions& options, const rendezvous::JoinRequest& request, const base::Deadline& deadline);
  void meet_open(JobOptions& options, OpenPlace& place, const base::Deadline& deadline);
  std::string displaced() const;

  std::shared_ptr<store::etcd::KeysInEtcd> store_;
  std::string seat_;                                          ///< set to `left` at the end; empty: none
  std::function<std::optional<std::string>()> look_at_seat_;  ///< returns why it is another job's, if it is
};

}  // namespace unisono::launcher

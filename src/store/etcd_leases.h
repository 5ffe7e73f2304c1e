#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/deadline.h"
#include "base/thread.h"
#include "store/etcd_client.h"

namespace unisono::store::etcd {

/// The signs of life of this process, which a thread renews. There are two leases: of this process alone, with which its presence and its marks
/// vanish soon after it has died; and of all processes that use the prefix, with which the keys of a job vanish some time after the last of them has
/// died.
class Leases {
 public:
  /// Announces this process.
  Leases(Client& client, const base::Deadline& deadline);
  /// Ends the thread. It does not take back the presence: `leave` does.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Returns a number that stands for this process, while its presence is announced.
  std::int64_t number() const { return number_; }
  std::int64_t of_process() const { return process_.load(std::memory_order_relaxed); }
  std::int64_t of_all() const { return all_.load(std::memory_order_relaxed); }
  static std::string presence_key(const std::string& prefix, std::int64_t number);
  /// Looks whether both leases live, and replaces one that has expired.
  void renew(const base::Deadline& deadline);
  /// Takes back the presence. The last process removes all keys of the prefix.
  void leave(const base::Deadline& deadline);

 private:
  void announce(const base::Deadline& deadline);
  void find_lease_of_all(const base::Deadline& deadline);
  void keep_alive();

  Client& client_;
  const std::int64_t number_;
  std::mutex renewing_;
  std::atomic<std::int64_t> process_{0}, all_{0};
  std::mutex mutex_;  ///< guards the next one
  bool stop_ = false;
  std::condition_variable stopping_;
  base::Thread thread_;
};

}  // namespace unisono::store::etcd

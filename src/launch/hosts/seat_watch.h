#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/thread.h"
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

}  // namespace unisono::launcher

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "transport/tcp/ended_groups.h"
#include "transport/tcp/peer.h"

namespace unisono::transport {

/// The listeners of groups. They get notices from one thread at a time, which keeps their order. The notices of groups without a listener are kept.
class NoticeDelivery {
 public:
  void listen(std::uint64_t group, Link::Listener listener);
  void end_group(std::uint64_t group);
  /// Returns a lock without a mutex where another thread delivers. It is taken before the link's mutex.
  std::unique_lock<std::recursive_mutex> try_lock() { return {mutex_, std::try_to_lock}; }
  /// Gives a notice to its listener; called with the lock. Returns false where it is dropped, because too many are kept.
  bool deliver(Notice& notice);

 private:
  std::recursive_mutex mutex_;  ///< held while a listener runs
  std::unordered_map<std::uint64_t, std::shared_ptr<Link::Listener>> listeners_;
  std::unordered_map<std::uint64_t, std::vector<Notice>> kept_;  ///< for groups without a listener so far
  std::size_t kept_bytes_ = 0;
  EndedGroups ended_;  ///< they get no listener any more
};

}  // namespace unisono::transport

#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "rendezvous/presence.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

/// Limits every call to one of our stores by the timeout of the join. Afterwards the store has a timeout of its own again.
class JoinTimeout {
 public:
  /// The deadline that holds afterwards: the store's own, or the shorter one of both.
  enum class Afterwards { as_before, at_most };

  JoinTimeout(Store& store, std::chrono::milliseconds timeout, Afterwards afterwards = Afterwards::as_before)
      : store_(store), afterwards_(afterwards == Afterwards::as_before ? store.timeout() : std::min(store.timeout(), timeout)) {
    store.set_timeout(timeout);
  }
  ~JoinTimeout() { store_.set_timeout(afterwards_); }
  JoinTimeout(const JoinTimeout&) = delete;
  JoinTimeout& operator=(const JoinTimeout&) = delete;

 private:
  Store& store_;
  std::chrono::milliseconds afterwards_;
};

/// The owner of a store. The caller's own store keeps its timeout.
enum class Owner { library, caller };

/// The end of this process's part in the job.
class Departure {
 public:
  Departure(std::shared_ptr<Store> store, std::string seat, std::shared_ptr<Presence> presence, Owner owner);
  /// Leaves the job, which takes at most that long where the store does not answer any more; later calls do nothing.
  void leave(std::chrono::milliseconds at_most) noexcept;

 private:
  const Owner owner_;
  std::once_flag once_;
  std::shared_ptr<Store> store_;
  std::string seat_;
  std::shared_ptr<Presence> presence_;
};

}  // namespace unisono::rendezvous

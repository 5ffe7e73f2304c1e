#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "rendezvous/rendezvous.h"
#include "unisono/store.h"

namespace unisono::context {

/// The time between meeting the other ranks and having a group with them. A rank that cannot go on says so, and a rank that dies is seen by the
/// launcher: those that wait for it in `watched` throw PeerFailed instead of waiting on.
class Formation {
 public:
  explicit Formation(const rendezvous::JobIdentity& identity);
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  /// This world's own part of the job's store: as it is, and watched as long as this lives. In a world of one, memory.
  const std::shared_ptr<Store>& store() const { return store_; }
  const std::shared_ptr<Store>& watched() const { return watched_; }
  /// Before which the keys of this world are, in the job's store.
  const std::string& prefix() const { return prefix_; }

  /// Tells the others why there will be no group. A rank that serves the store gives them a second to read it.
  void give_up(const std::exception_ptr& reason) noexcept;

 private:
  void look() const;

  int rank_;
  int world_size_;
  bool serves_store_;
  std::shared_ptr<Store> launcher_;  // null elsewhere
  std::string prefix_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Store> watched_;
  std::shared_ptr<std::atomic<const Formation*>> forming_ = std::make_shared<std::atomic<const Formation*>>(this);  // null once there is a world
};

}  // namespace unisono::context

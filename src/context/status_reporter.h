#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store.h"

namespace unisono::context {

/// Tells `unisono run`, if it started this rank, the rank's status. No function throws: a launcher that is gone has nothing to learn.
class StatusReporter {
 public:
  /// `store`: the launcher's; null under other launchers. `names`: by rank of the world, those that the launcher gave the processes;
  /// empty: they are the ranks.
  StatusReporter(std::shared_ptr<Store> store, int rank, std::vector<std::string> names)
      : store_(std::move(store)), rank_(rank), names_(std::move(names)) {}

  const std::shared_ptr<Store>& store() const { return store_; }
  /// Gives the launcher's store to a rank that has met the others elsewhere.
  void connect(std::shared_ptr<Store> store) { store_ = std::move(store); }

  void tell(const std::string& status) const noexcept;
  /// Tells that a group of this rank is over because of rank `culprit` of the world (-1: of no rank in particular). After the failure of another rank
  /// was told, a failure that names this rank itself is a consequence and is not told: the first cause stays.
  void tell_failure(int culprit, const std::string& message) noexcept;
  /// Tells that the last call was a Mismatch. `culprit`: a rank of the world, or -1. `ranks`: how many were compared.
  void tell_mismatch(int culprit, int ranks, const std::string& text) const noexcept;
  /// Tells that this rank gives up because of an error that names rank `blamed` of the world.
  void tell_given_up(int blamed, std::string_view how) const noexcept;
  /// Tells that this rank has survived a failure and has formed a group with the other survivors.
  void tell_shrunk() noexcept;
  /// Tells that this rank is one of a controller's job, in which a lost worker ends nothing. Failures of groups are not told from here on.
  void tell_controlled() noexcept;
  /// Tells that the controller is lost or has given up, and this worker ends with it.
  void tell_controller_lost(const std::string& message) const noexcept { tell("poisoned 0 " + message); }
  /// Tells that this process has finalized, though its world has failed. The last status tells where this rank itself has met a failure: that stays.
  /// Else another rank has ended the world while this one did not need it any more, or shrink_group has left a sound part of it. Returns true then.
  bool tell_finalized_after_failure() const noexcept;

 private:
  /// Returns the number by which the launcher knows a rank of the world; negative numbers as they are.
  int place_of(int rank_in_world) const;
  std::string key() const;

  std::shared_ptr<Store> store_;
  int rank_;
  std::vector<std::string> names_;
  std::atomic<bool> is_controlled_{false};   // failures of its groups are no reason why the job ends
  std::atomic<bool> blames_another_{false};  // a group is over because of another rank, and its survivors have formed none since
};

}  // namespace unisono::context

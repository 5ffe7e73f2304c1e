#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "coordination/coordination_parts.h"
#include "engines/host_engine.h"
#include "unisono/failure.h"

namespace unisono::coordination {

/// Encode a failure as a notice to ranks of other hosts, and decode it. A malformed notice is nothing, and
/// numbers that are no ranks of a group of `ranks` are left out.
std::string encode_failure(const Failure& failure);
std::optional<Failure> decode_failure(std::string_view notice, int ranks);

/// Writes the failure into memory that the ranks of a host share, unless it contains one already.
void record_failure(engines::FailureRecord& record, const Failure& failure);
/// Returns none where a rank is still writing. If that rank dies, it is found dead instead.
std::optional<Failure> recorded_failure(const engines::FailureRecord& record);

/// Whether a group is over, and why: as this rank has found, as a rank of this host has recorded in shared memory, or as one of another host has
/// announced. Any thread may call.
class FailureState {
 public:
  explicit FailureState(const HostRanks& host) : host_(host) {}

  /// Returns the reason why the group is over, if it is. Costs one load while it is not.
  std::optional<Failure> known() const {
    if (!may_be_over()) [[likely]]
      return std::nullopt;
    return read();
  }
  /// Records a failure for this rank and the others of its host, and wakes those. The first failure counts.
  void record(const Failure& failure);
  /// Keeps a failure that a rank of another host has announced.
  void take_announced(const Failure& failure);
  /// Returns the announced failure, even where it does not count yet.
  std::optional<Failure> announced() const;

 private:
  bool may_be_over() const {
    return (host_.engine && host_.engine->memory()->failure().state.load(std::memory_order_acquire) != 0) ||
           failed_.load(std::memory_order_acquire) || is_announced_.load(std::memory_order_acquire);
  }
  std::optional<Failure> read() const;

  const HostRanks& host_;
  std::atomic<bool> failed_{false}, is_announced_{false};
  mutable std::mutex mutex_;  ///< guards the members below
  std::optional<Failure> failure_, announced_;
  base::Clock::time_point announced_at_{};
};

}  // namespace unisono::coordination

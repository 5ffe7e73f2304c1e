#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "group/calls/values.h"
#include "group/group_core.h"
#include "recorder/recorder.h"
#include "unisono/engine.h"
#include "unisono/error.h"
#include "unisono/tensor.h"

namespace unisono::group {

class Progress;

/// The parts that a group is made of.
struct GroupParts {
  std::string name;
  int rank = 0;
  std::vector<int> global_ranks;
  int generation = 0;                    // of the job, in whose world these ranks are; 0: of no job that grows
  std::vector<int> recorded_ranks = {};  // by the former, the ranks of the job that the record is of, -1: of none; empty: they are the same
  std::vector<std::string> host_names;   // of the members
  std::unique_ptr<GroupCore> core;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<Progress> progress;
  std::shared_ptr<recorder::Recorder> recorder;
  std::function<void(const Failure&)> on_failure = {};  // called once, for the failure that is noticed first; must not throw
  /// Called for each Mismatch of a collective, and for other errors that all ranks throw, with the culprit (-1: none) and the number of ranks that
  /// were compared; must not throw.
  std::function<void(const std::string& text, int culprit, int ranks)> on_error_of_all = {};
};

/// The members of a group, what its calls are checked by, and their number. The checks of calls need no more of a group.
class GroupFacts {
 public:
  /// `parts` has to outlive it.
  explicit GroupFacts(const GroupParts& parts);
  GroupFacts(const GroupFacts&) = delete;
  GroupFacts& operator=(const GroupFacts&) = delete;

  const std::string& name() const { return parts_.name; }
  int rank() const { return parts_.rank; }
  int size() const { return static_cast<int>(parts_.global_ranks.size()); }
  const std::vector<int>& global_ranks() const { return parts_.global_ranks; }
  const std::string& host_name(int rank) const;
  std::chrono::milliseconds timeout() const { return parts_.timeout; }
  /// The device whose memory it works on, beside the host's.
  const std::optional<Device>& device() const { return device_; }
  /// Whether the ranks compare shapes; see shapes.h.
  bool compares_shapes() const { return compares_shapes_; }
  /// The values that no rank may send; see values.h.
  RefusedValues refused_values() const { return refused_values_; }

  /// Returns the rank in the world; -1 for a negative number.
  int in_world(int rank) const { return rank < 0 ? -1 : parts_.global_ranks[static_cast<std::size_t>(rank)]; }
  /// Returns the number by which the record knows a rank of the group.
  int in_record(int rank) const {
    const int of_world = in_world(rank);
    return of_world < 0 || parts_.recorded_ranks.empty() ? of_world : parts_.recorded_ranks[static_cast<std::size_t>(of_world)];
  }
  /// Returns the rank in the world of a rank that the record knows by this number; -1 if it is none of this world.
  int from_record(int recorded) const;

  /// The sequence number of the last call. From any thread.
  std::uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }
  /// Returns the number of the next call. From the thread that is in the group.
  std::uint64_t count_call() {
    const std::uint64_t next = sequence() + 1;
    sequence_.store(next, std::memory_order_relaxed);
    return next;
  }

  /// Returns the facts about an error of a call. `culprit`: a rank of the group; none, or a negative number: nobody.
  ErrorInfo error_info(std::string_view operation, std::uint64_t sequence, std::optional<int> culprit = {}) const;

 private:
  const GroupParts& parts_;
  const std::optional<Device> device_;
  const bool compares_shapes_;
  const RefusedValues refused_values_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace unisono::group

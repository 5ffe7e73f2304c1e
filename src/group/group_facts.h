#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/repeated_texts.h"
#include "group/calls/check.h"
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
  base::RepeatedTexts host_names;        // of the members
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
  /// Whether the ranks compare shapes; see wants_shapes.
  bool compares_shapes() const { return compares_shapes_; }
  /// The values that no rank may send; see refused_values.
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

/// Makes errors of a group's calls out of failures, and reports the first one. All that waits for the group's operations needs no more of a group.
class GroupErrors {
 public:
  /// Returns a pointer to the errors of the group that keeps the group alive.
  using Share = std::function<std::shared_ptr<GroupErrors>()>;

  /// `parts` and `facts` have to outlive it.
  GroupErrors(const GroupParts& parts, const GroupFacts& facts, Share share) : parts_(parts), facts_(facts), share_(std::move(share)) {}
  GroupErrors(const GroupErrors&) = delete;
  GroupErrors& operator=(const GroupErrors&) = delete;

  const GroupFacts& facts() const { return facts_; }
  coordination::Coordination& coordination() const { return parts_.core->coordination(); }
  recorder::Recorder& recorder() const { return *parts_.recorder; }
  std::shared_ptr<GroupErrors> share() const { return share_(); }
  /// Records that a call waits for ranks of the group.
  void record_wait(const recorder::Recorder::Call& call, const std::vector<int>& ranks) const;

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  /// Ends the time in which calls can begin. Returns false if it has ended before.
  bool close() { return open_.exchange(false); }
  /// No failure is reported any more: the group is being left.
  void stop_reports() { reported_.store(true); }

  void abort(std::string_view reason) { end("gave up: " + std::string(reason)); }
  /// Aborts as a rank that says how it ended: "ended with ValueError: bad data".
  void end(std::string_view how);
  /// Aborts because a call was left half done: a user's callable threw, or memory ran out. Changes nothing if the group is over already.
  void abort_after(const std::exception_ptr& error);

  /// Poisons the group with the failure, reports it, and returns the error for the given call.
  std::exception_ptr fail(const Failure& failure, std::string_view operation, std::uint64_t sequence);
  /// Returns true if the group is over, and if a member has died though no call of this group has met it: the group is over then.
  bool has_lost_a_member();
  /// Returns the error of a failure as the given call meets it.
  std::exception_ptr error_of(const Failure& failure, std::string_view operation, std::uint64_t sequence) const;
  /// Returns the error of a call that cannot begin because one before it has ended with the group.
  std::exception_ptr error_when_over(std::string_view operation, std::uint64_t sequence);
  /// Who counts on a call that has begun. An exception that comes from nowhere in the library ends the group of a call that others count on, because
  /// they must not wait for what this rank cannot do.
  enum class Known { to_this_rank, to_the_peer, to_all };
  /// The error of a call for an exception, and whether the group is over with it.
  struct Thrown {
    std::exception_ptr error;
    bool ends_group = false;
  };
  /// Returns that for the exception that is being handled. A Mismatch of a call that is compared among all ranks is reported to the judge of how the
  /// job ended. From any thread.
  Thrown of_thrown(std::string_view operation, std::uint64_t sequence, Known known);
  void note_mismatch(const Mismatch& mismatch, int ranks, std::uint64_t sequence);
  /// Notes that all ranks throw this error, because of one of them, at the call of that number: if none follows it, it is why they end.
  void note_error_of_all(const Error& error, int culprit, int ranks, std::uint64_t sequence);
  /// Returns true if nothing was called since a collective that was a Mismatch: a group that ends now ends because of it.
  bool is_after_mismatch() const { return last_mismatch_.load() != 0 && last_mismatch_.load() == facts_.sequence(); }

 private:
  /// Returns the sentence of a failure, which names the rank whose deadline passed if that is another one.
  std::string text_of(const Failure& failure) const;

  const GroupParts& parts_;
  const GroupFacts& facts_;
  const Share share_;
  std::atomic<bool> open_{true};
  std::atomic<bool> reported_{false};
  std::atomic<std::uint64_t> last_mismatch_{0};  // the number of the last collective that was one
};

}  // namespace unisono::group

#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "group/group_facts.h"

namespace unisono::group {

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
  /// Adds the group's name and the culprit's host to an error that comes from below.
  std::exception_ptr complete(std::exception_ptr error, std::string_view operation, std::uint64_t sequence) const;
  /// Completes the error of a call that is compared among all ranks, and reports it to the judge of how the job ended. From any thread.
  std::exception_ptr complete_collective(std::exception_ptr error, std::string_view operation, std::uint64_t sequence);
  /// Ends a call that is handled: throws the error of its group for what it has thrown.
  [[noreturn]] void rethrow_as_error(std::string_view operation, std::uint64_t sequence);
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

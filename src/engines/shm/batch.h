#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "base/environment.h"
#include "engines/shm/lockstep.h"
#include "unisono/task.h"

namespace unisono::engines::shm {

/// A collective that may wait behind others for its turn. A small one may be carried out before, in the step of one in front of it: see Batch.
class QueuedTask : public Task {
 public:
  /// Returns true where the call is one small step, which others can share.
  bool shares_step() const { return task().shares_step(); }
  bool has_begun() const { return is_over_ || task().has_begun(); }
  /// Has calls follow this one in its step, where it has not begun. `followers`: those behind it, in their order, all of which share steps.
  void take_along(std::span<QueuedTask* const> followers);

 protected:
  /// Returns true where the call was carried out in the step of another one; throws what it ended with.
  bool is_over();

 private:
  friend class Batch;
  virtual LockstepTask& task() = 0;
  const LockstepTask& task() const { return const_cast<QueuedTask*>(this)->task(); }

  bool is_over_ = false;
  std::exception_ptr error_;
};

/// The small calls that share the step of the one in front of them. A rank whose queue has several puts the signatures and the elements of those
/// behind the first one into its slot, and their number into its line. All ranks carry out as many as every one of them has put there: the others
/// have come to the step with fewer, and none waits for them. Each call is compared by itself, and the first that differs ends the batch, so that
/// everything behind it is as if it had had a step of its own.
///
/// A call may read what one before it writes. It gets a step behind that one, since its elements would leave too early.
class Batch {
 public:
  static constexpr std::size_t most_calls = 64;
  static constexpr std::size_t most_bytes = std::size_t{16} << 10;  // the batch has to stay in the nearest caches

  /// Returns true where calls are to share steps: as UNISONO_COALESCE says, or else where ranks share processors and lose a change of tasks with
  /// every step. A rank with a processor of its own has made the exchange of a step by the time that it has posted the next call.
  static bool pays(const base::Environment& environment, bool is_crowded);

  Batch() { calls_.reserve(most_calls); }

  void set(std::span<QueuedTask* const> calls) { calls_.assign(calls.begin(), calls.end()); }
  /// Puts the calls into the slot of the step that `leader` is about to publish. Returns how many there are.
  std::uint8_t board(LockstepTask& leader);
  /// Carries out those that all ranks have put there. The ranks have arrived, and the leader is done.
  void carry_out(LockstepTask& leader);

 private:
  static std::size_t first_place(const LockstepTask& leader);
  static std::size_t next_place(const LockstepTask& task, std::size_t place);
  std::size_t most_for(const LockstepTask& leader) const;
  bool reads_results(const LockstepTask& leader, std::size_t i) const;
  static void carry_out(LockstepTask& task, std::size_t place);
  void adapt(std::size_t carried);

  std::vector<QueuedTask*> calls_;
  std::size_t limit_ = 1;  // of calls put into a slot where it is not known how many the others have: those left over were put there in vain
};

}  // namespace unisono::engines::shm

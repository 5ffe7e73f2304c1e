#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "engines/decision.h"
#include "engines/shm/direct_access.h"
#include "engines/shm/result_writer.h"
#include "engines/shm/segment.h"
#include "engines/shm/staging.h"
#include "engines/shm/staging_choice.h"
#include "unisono/call.h"
#include "unisono/detail/switches.h"
#include "unisono/task.h"

namespace unisono::engines::shm {

class LockstepTask;

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

  /// `step_bytes`: what a step fills of a slot.
  Batch(const Segment& segment, int rank, std::size_t step_bytes) : segment_(segment), rank_(rank), step_bytes_(step_bytes) {
    calls_.reserve(most_calls);
  }

  /// Has the calls that are added behind it, in their order, share the step of `leader`.
  void begin(const LockstepTask& leader) {
    leader_ = &leader;
    calls_.clear();
  }
  void clear() { leader_ = nullptr; }
  const LockstepTask* leader() const { return leader_; }
  /// Adds a call behind the others. It stays where it is until its leader is done. Calls beyond the most are left out.
  void add(LockstepTask& call) {
    if (calls_.size() < most_calls) calls_.push_back(&call);
  }
  /// Puts the calls into the slot of a step that the leader is about to publish, whose elements take the first `taken` bytes. Returns how many there
  /// are.
  std::uint8_t board(std::uint32_t step, std::size_t taken);
  /// Carries out those that all ranks have put there. The ranks have arrived, and the leader is done.
  void carry_out(std::uint32_t step, std::size_t taken);

 private:
  static std::size_t next_place(const LockstepTask& call, std::size_t place);
  std::size_t most_at(std::uint32_t step) const;
  bool reads_results(std::size_t i) const;
  void carry_out(LockstepTask& call, std::uint32_t step, std::size_t place) const;
  void adapt(std::size_t carried);

  const Segment& segment_;
  int rank_;
  std::size_t step_bytes_;
  const LockstepTask* leader_ = nullptr;
  std::vector<LockstepTask*> calls_;
  std::size_t limit_ = 1;  // of calls put into a slot where it is not known how many the others have: those left over were put there in vain
};

/// Cooperative collectives: every collective of a group is a sequence of steps, and in every step each rank
///   1. produces: puts the data for the others into its own inbox,
///   2. publishes the step's number in its line (with the call's signature in the first step),
///   3. waits until every other rank has published the same step, comparing signatures in the first one,
///   4. consumes: reads the others' inboxes into its own result.
/// Lines and inboxes alternate between two copies by the parity of the step, so no rank waits for its readers: a rank at step s + 2 has seen all
/// others at s + 1, and a rank at s + 1 has consumed s. A message of at most 32 bytes travels inside the line, which makes a single exchange of
/// lines. Since the first step compares before anything is consumed, every rank notices a mismatch at the same step, and nothing is moved.
class Lockstep {
 public:
  /// `streams_from`: the bytes of all ranks' outputs from which results are written past the caches.
  Lockstep(std::shared_ptr<Segment> segment, int rank, bool is_crowded, std::size_t streams_from = shm::streams_from());

  Segment& segment() const { return *segment_; }
  int rank() const { return rank_; }
  int size() const { return segment_->ranks(); }
  /// Returns the rank that is `i` places behind this one, round the group; `i` is at most size().
  int rank_after(int i) const { return rank() + i < size() ? rank() + i : rank() + i - size(); }
  /// Returns how many bytes of a slot a step may fill.
  std::size_t step_bytes() const { return step_bytes_; }
  std::size_t streams_from() const { return streams_from_; }
  std::uint32_t step() const { return step_; }
  /// Returns true where the calls below are compared: see set_call_comparison.
  bool compares() const;
  /// Returns true where small calls that wait share a step: where ranks share processors, and lose a change of tasks with every step. A rank with a
  /// processor of its own has made the exchange of a step by the time that it has posted the next call.
  bool coalesces() const { return coalesces_; }
  DirectAccess& direct() { return direct_; }
  /// Returns true while ranks are known to differ in a call, and it is not decided yet who is to blame: its task is about to throw. Any thread may
  /// ask.
  bool is_disputed() const { return is_disputed_.load(std::memory_order_acquire); }

 private:
  friend class LockstepTask;
  /// The time for which a task waits for the ballots of late ranks.
  class Dispute {
   public:
    explicit Dispute(std::atomic<bool>& is_disputed) : is_disputed_(is_disputed) { is_disputed_.store(true, std::memory_order_release); }
    ~Dispute() { is_disputed_.store(false, std::memory_order_release); }
    Dispute(const Dispute&) = delete;
    Dispute& operator=(const Dispute&) = delete;
    bool is_over() const { return deadline_.passed(); }

   private:
    std::atomic<bool>& is_disputed_;
    base::Deadline deadline_{detail::ballot_time()};
  };

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::size_t step_bytes_;
  std::size_t streams_from_;
  bool coalesces_;
  DirectAccess direct_;
  StagingChoice staging_;
  Batch batch_;
  std::uint32_t step_ = 0;  // the last step that was published
  bool ragged_ = false;     // that step was left (by a mismatch) before all ranks had published it
  std::atomic<bool> is_disputed_{false};
};

/// A collective on a Lockstep. Derived classes define the number of steps, and produce and consume each of them.
///
/// An all_reduce of one float by four ranks, whose inputs are 1, 2, 3, 4. Its one step has the number 7, and rank 2 comes last:
///
///   produce(0)   ranks 0, 1, 3: each writes its signature and its float into its own line of parity 7 & 1: `payload` = 1, 2, 4
///   publish(0)   ranks 0, 1, 3: each stores step = 7 (release) in that line, and notifies the others
///   wait         everybody_at(7) is false: line 2 shows 5, the last step of that parity. advance() returns false; waiting_for() is {2}
///   produce(0)   rank 2: payload = 3; publish(0): step = 7. Ranks that slept are woken
///   agrees       every rank reads (acquire) all lines at 7 and compares the four signatures with its own. A difference begins a dispute
///   consume(0)   every rank adds the payloads in the order of the ranks, 1 + 2 + 3 + 4, into `out`: all have 10, the same bits
///
/// Step 8 uses the lines of the other parity, so a rank that is still in consume(0) of step 7 reads what no other rank overwrites. Nobody writes the
/// lines of step 9, which are those of step 7, before all lines show 8, and a rank shows 8 only behind its consume(0) of step 7. A larger call has
/// several steps (`steps`): its elements lie in the slots of the same parity, and consume(k) of one piece and produce(k + 1) of the next alternate.
class LockstepTask : public Task {
 public:
  bool advance() final;
  std::vector<int> waiting_for() const final;
  /// Other calls may share the step of this one, or it that of another, if it is one small step, and its signature says all.
  bool shares_step() const final;
  void take_along(std::span<Task* const> followers) final;

 protected:
  /// `call` must live as long as the task. `step_bytes`: the most that a rank produces in one step.
  LockstepTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, std::size_t step_bytes);

  /// Returns the task that carries the call out on the ranks' buffers where they lie; null if this task itself does. That task has more than one
  /// step, or else it has found that the buffers do not lie in reach, and has moved nothing.
  virtual std::unique_ptr<LockstepTask> direct() { return nullptr; }
  virtual void produce(std::size_t k) = 0;
  virtual void consume(std::size_t k) = 0;
  /// Asked before every step but the first. While it returns false, the task makes no progress, and the waiting thread finds that the group has
  /// failed.
  virtual bool may_go_on() const { return true; }
  /// Returns true where a rank's call differs beyond the signature, as far as the ranks at the first step show it. Asked about every other rank
  /// before anything is consumed, in a call that has counts. All ranks must notice the same difference.
  virtual bool disagrees(int rank) const;
  /// Returns which rank is to blame where some rank disagrees. `ranks`: those that have arrived, this one among them; all have the same signature.
  virtual Decision decide_between(const std::vector<int>& ranks) const;

  const CollectiveCall& call() const { return call_; }
  Lockstep& engine() const { return engine_; }
  Segment& segment() const { return *engine_.segment_; }
  int rank() const { return engine_.rank_; }
  int size() const { return engine_.size(); }
  std::size_t element() const { return element_; }
  std::size_t bytes(std::size_t elements) const { return elements * element_; }
  /// Return the address of an element of the call's memory.
  const std::byte* in(std::size_t index) const { return static_cast<const std::byte*>(call().in.data()) + bytes(index); }
  std::byte* out(std::size_t index) const { return static_cast<std::byte*>(call().out.data()) + bytes(index); }
  bool is_root() const { return rank() == call().root; }
  bool is_receiver() const { return is_root() || traits_of(call().operation).receivers == Participants::all_ranks; }
  const ResultWriter& result() const { return result_; }
  /// Returns the engine's number of step k.
  std::uint32_t step_number(std::size_t k) const { return first_ + static_cast<std::uint32_t>(k); }
  /// Sets the number of steps, for a task that learns it in its first step; it is equal on every rank.
  void set_steps(std::size_t steps) { steps_ = steps; }
  bool has_arrived(int rank) const { return segment().has_arrived(rank, engine_.step_); }
  /// Returns the memory of a rank's data in step k: its line if the data is small, its slot otherwise.
  std::byte* inbox(int rank, std::size_t k) const {
    const std::uint32_t step = step_number(k);
    if (inline_ && place_ == 0) return segment().line(rank, step).payload;
    if (size() != 2 || engine_.coalesces_) return segment().inbox(rank, step) + place_ + rotated(step);
    // Calls of other kinds have other slots, so that no two ranks write one slot even if they do not make the same call.
    return exchanges() ? segment().inbox(rank ^ static_cast<int>(step >> 1 & 1U), step) : segment().result(rank, step) + rotated(step);
  }
  /// Returns true for a call in which two ranks fill a slot each and read the other's. They change places with each use of a slot: a rank then writes
  /// over what it has read itself, so the lines are in the caches of its own core.
  bool exchanges() const {
    const OperationTraits& traits = traits_of(call_.operation);
    const bool all_give_and_receive = traits.senders == Participants::all_ranks && traits.receivers == Participants::all_ranks;
    return size() == 2 && all_give_and_receive && !is_prefix(call_.operation) && !engine_.coalesces_;
  }
  /// Returns true where slots are best left in the caches: what one of ranks that share processors writes is read on the same processor.
  bool stays_in_caches() const { return engine_.coalesces_ || exchanges(); }
  /// Puts elements into a slot.
  void stage(void* to, const void* from, std::size_t bytes) const {
    if (stays_in_caches()) kernels::copy(to, from, bytes);
    else Staging::copy(to, from, bytes);
  }

 private:
  friend class Batch;
  /// Returns where the data of a step begins in its slot. A line that another core has read is slow to write for as long as that core has it in its
  /// caches. So large data goes round in the slots, which are together larger than these caches, unless it is best left in them.
  std::size_t rotated(std::uint32_t step) const {
    constexpr std::size_t least = std::size_t{16} << 10;
    const std::size_t slot = segment().slot_bytes(), bytes = step_bytes_ <= slot ? step_bytes_ : engine_.step_bytes_;
    if (bytes < least || stays_in_caches()) return 0;
    return (step >> 1) * std::bit_ceil(bytes) & (slot - 1);
  }
  /// Puts the elements into this place of the slot, in a step that another call publishes.
  void produce_at(std::uint32_t step, std::size_t place);
  /// Ends the call, which all ranks have put into that step: with the elements that lie there, or with an error.
  void consume_there();
  void fail(std::exception_ptr error);
  bool everybody_at(std::uint32_t step);
  /// Compares a rank that has arrived; begins a dispute if it does not agree.
  bool agrees(int rank, std::uint32_t step);
  bool is_decidable() const;
  [[noreturn]] void leave();
  void publish(std::size_t k);
  /// Takes what the others have put there, once all have.
  void end_step();

  enum class Phase { start, direct, begin, settle, produce, wait, dispute, done };
  Lockstep& engine_;
  const CollectiveCall& call_;
  Signature signature_;
  ResultWriter result_;
  std::size_t steps_;
  std::size_t step_bytes_;  // the most that the call puts into a slot in one step
  std::size_t element_;
  std::size_t place_ = 0;  // of the data in the slot, where another call publishes the step: not 0 then
  std::size_t k_ = 0;
  std::uint32_t first_ = 0;
  int next_ = 0;  // ranks below it have arrived
  std::uint32_t polls_ = 0;
  bool inline_;
  bool announces_;
  bool compares_ = true;
  bool callables_differ_ = false;  // and nothing else, as far as the ranks that have come show
  Phase phase_ = Phase::start;
  std::unique_ptr<LockstepTask> direct_;
  std::optional<Lockstep::Dispute> dispute_;
  std::exception_ptr error_;  // with which it ended in the step of another call
};

}  // namespace unisono::engines::shm

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "engines/decision.h"
#include "engines/shm/segment.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// A call as a batch sees it: one small step, which can be carried out in the step of another call.
class BatchedCall {
 public:
  BatchedCall(const BatchedCall&) = delete;
  BatchedCall& operator=(const BatchedCall&) = delete;

  const CollectiveCall& call() const { return call_; }
  const Signature& signature() const { return signature_; }
  /// Returns the most bytes that the call puts into a slot in one step.
  std::size_t step_bytes() const { return step_bytes_; }
  /// Puts the elements into this place of the slot, in a step that another call publishes.
  virtual void produce_at(std::uint32_t step, std::size_t place) = 0;
  /// Ends the call, which all ranks have put into that step: with the elements that lie there, or with an error.
  virtual void consume_there() = 0;
  virtual void fail(std::exception_ptr error) = 0;

 protected:
  /// `call` must live as long as this object.
  BatchedCall(const CollectiveCall& call, std::size_t step_bytes) : call_(call), signature_(signature_of(call)), step_bytes_(step_bytes) {}
  ~BatchedCall() = default;

 private:
  const CollectiveCall& call_;
  Signature signature_;
  std::size_t step_bytes_;
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

  /// `step_bytes`: what a step fills of a slot.
  Batch(const Segment& segment, int rank, std::size_t step_bytes) : segment_(segment), rank_(rank), step_bytes_(step_bytes) {
    calls_.reserve(most_calls);
  }

  /// Has the calls that are added behind it, in their order, share the step of `leader`.
  void begin(const BatchedCall& leader) {
    leader_ = &leader;
    calls_.clear();
  }
  void clear() { leader_ = nullptr; }
  const BatchedCall* leader() const { return leader_; }
  /// Adds a call behind the others. It stays where it is until its leader is done. Calls beyond the most are left out.
  void add(BatchedCall& call) {
    if (calls_.size() < most_calls) calls_.push_back(&call);
  }
  /// Puts the calls into the slot of a step that the leader is about to publish, whose elements take the first `taken` bytes. Returns how many there
  /// are.
  std::uint8_t board(std::uint32_t step, std::size_t taken);
  /// Carries out those that all ranks have put there. The ranks have arrived, and the leader is done.
  void carry_out(std::uint32_t step, std::size_t taken);

 private:
  static std::size_t next_place(const BatchedCall& call, std::size_t place);
  std::size_t most_at(std::uint32_t step) const;
  bool reads_results(std::size_t i) const;
  void carry_out(BatchedCall& call, std::uint32_t step, std::size_t place) const;
  void adapt(std::size_t carried);

  const Segment& segment_;
  int rank_;
  std::size_t step_bytes_;
  const BatchedCall* leader_ = nullptr;
  std::vector<BatchedCall*> calls_;
  std::size_t limit_ = 1;  // of calls put into a slot where it is not known how many the others have: those left over were put there in vain
};

}  // namespace unisono::engines::shm

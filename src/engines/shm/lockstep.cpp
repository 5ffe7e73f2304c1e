#include "engines/shm/lockstep.h"

#include <algorithm>
#include <utility>

#include "base/switches.h"

namespace unisono::engines::shm {

Lockstep::Lockstep(std::shared_ptr<Segment> segment, int rank, bool is_crowded, std::size_t streams_from)
    : segment_(std::move(segment)),
      rank_(rank),
      step_bytes_(shm::step_bytes(segment_->slot_bytes(), is_crowded)),
      streams_from_(streams_from),
      coalesces_(is_crowded),
      direct_(*segment_, rank),
      staging_(*segment_, rank, is_crowded),
      batch_(*segment_, rank, step_bytes_) {}

bool Lockstep::compares() const { return base::compares_calls.load(std::memory_order_relaxed); }

LockstepTask::LockstepTask(Lockstep& engine, const CollectiveCall& call, std::size_t steps, std::size_t step_bytes)
    : engine_(engine),
      call_(call),
      signature_(signature_of(call)),
      result_(call, engine.rank(), engine.size(), engine.streams_from()),
      steps_(steps),
      step_bytes_(step_bytes),
      element_(size_of(call.in.dtype())),
      inline_(steps == 1 && step_bytes <= line_payload),
      announces_(!inline_ && engine.size() > 1 && engine.direct_.suits(call)) {}

bool LockstepTask::disagrees(int) const { return false; }
Decision LockstepTask::decide_between(const std::vector<int>&) const { return {}; }

bool LockstepTask::shares_step() const {
  return engine_.coalesces() && (phase_ == Phase::start || phase_ == Phase::settle) && steps_ == 1 && size() > 1 && !announces_ && !call().custom &&
         call().label.empty() && !has_counts(call().operation);
}

void LockstepTask::take_along(std::span<Task* const> followers) {
  engine_.batch_.begin(*this);
  for (Task* const follower : followers) {
    auto* const task = dynamic_cast<LockstepTask*>(follower);
    if (task == nullptr) break;  // a task of another engine
    engine_.batch_.add(*task);
  }
}

// Where the other ranks do not carry it out in that step it is produced again, in a step of its own.
void LockstepTask::produce_at(std::uint32_t step, std::size_t place) {
  first_ = step;
  place_ = place;
  produce(0);
}

void LockstepTask::consume_there() {
  phase_ = Phase::done;
  consume(0);
}

void LockstepTask::fail(std::exception_ptr error) {
  phase_ = Phase::done;
  error_ = std::move(error);
}

bool LockstepTask::advance() {
  for (;;) {
    switch (phase_) {
      case Phase::start:  // not in the constructor: each of several queued calls begins where the one before it ended
        if (announces_ && engine_.direct_.begins(call())) direct_ = direct();
        phase_ = direct_ ? Phase::direct : Phase::begin;
        if (direct_) break;
        [[fallthrough]];
      case Phase::begin:
        compares_ = engine_.compares();
        callables_differ_ = is_to_be_tried(signature_) && size() > 1;
        phase_ = engine_.ragged_ ? Phase::settle : Phase::produce;
        break;
      case Phase::direct:
        if (!direct_->advance()) return false;
        phase_ = direct_->steps_ > 1 ? Phase::done : Phase::begin;
        direct_.reset();
        break;
      case Phase::settle:
        if (!everybody_at(engine_.step_)) return false;
        engine_.ragged_ = false;
        next_ = 0;
        phase_ = Phase::produce;
        break;
      case Phase::produce:
        if (k_ == 0) {
          first_ = engine_.step_ + 1;
          place_ = 0;
        } else if (!may_go_on()) {
          return false;
        }
        produce(k_);
        publish(k_);
        next_ = 0;
        phase_ = Phase::wait;
        break;
      case Phase::wait:
        if (everybody_at(engine_.step_)) end_step();
        else if (phase_ == Phase::wait) return false;
        if (phase_ == Phase::done) return true;
        break;
      // Those that have come show that the ranks differ, but not yet which of them differ from most. As a rule the others are on their way to the
      // same call. A rank that is far behind delays the error only for a limited time.
      case Phase::dispute:
        if (!is_decidable()) return false;
        leave();
      case Phase::done:
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
        return true;
    }
  }
}

void LockstepTask::end_step() {
  if (k_ == 0 && callables_differ_ && compares_) [[unlikely]] {
    phase_ = Phase::done;
    throw CallablesDiffer();
  }
  if (k_ == 0) {
    engine_.staging_.follow(engine_.step_);
    if (announces_) engine_.direct_.note(engine_.step_);
  }
  consume(k_);
  if (engine_.batch_.leader() == this) [[unlikely]] {
    engine_.batch_.carry_out(first_, inline_ ? 0 : step_bytes_);
    engine_.batch_.clear();
  }
  phase_ = ++k_ == steps_ ? Phase::done : Phase::produce;
}

void LockstepTask::publish(std::size_t k) {
  const std::uint32_t step = ++engine_.step_;
  const int me = engine_.rank_;
  Line& line = segment().line(me, step);
  if (k == 0) {
    if (!compares_) engine_.batch_.clear();
    line.followers = engine_.batch_.leader() == this ? engine_.batch_.board(first_, inline_ ? 0 : step_bytes_) : std::uint8_t{0};
    line.signature = signature_;
    if (!call().label.empty()) line.set_label(call());
    line.set_staging(engine_.staging_.word(step_bytes_ >= Staging::least_bytes));
    if (announces_) line.announce(engine_.direct_.announce(call()));
  }
  line.step.store(step, std::memory_order_seq_cst);  // litmus: step-publish. Before looking for waiters
  for (int r = 0, n = size(); r < n; ++r) {
    if (r != me) segment().notifier(r).notify();
  }
}

// A comparison with all ranks behind a late one costs more than the poll.
constexpr std::uint32_t polls_between_comparisons = 32;

bool LockstepTask::everybody_at(std::uint32_t step) {
  const bool first = phase_ == Phase::wait && k_ == 0 && compares_;
  const int n = size();
  for (; next_ < n; ++next_) {
    if (next_ == engine_.rank_) continue;
    if (!segment().has_arrived(next_, step)) {
      // A late rank must not hide that two others disagree already.
      if (first && ++polls_ % polls_between_comparisons == 0) {
        for (int r = next_ + 1; r < n; ++r) {
          if (r != engine_.rank_ && segment().has_arrived(r, step) && !agrees(r, step)) return false;
        }
      }
      return false;
    }
    if (first && !agrees(next_, step)) return false;
  }
  return true;
}

// Every rank compares itself with every other at this step, so all throw in the end, and none has consumed anything.
bool LockstepTask::agrees(int rank, std::uint32_t step) {
  const Signature& theirs = segment().line(rank, step).signature;
  const bool is_same = theirs == signature_;
  if (is_same || fit(theirs, signature_)) [[likely]] {
    if (!is_same) callables_differ_ = true;
    if (!has_counts(call().operation) || !disagrees(rank)) return true;
  }
  dispute_.emplace(engine_.is_disputed_);
  phase_ = Phase::dispute;
  return false;
}

/// Returns true once all ranks have come, or no more are waited for: in a group that is over none will come.
bool LockstepTask::is_decidable() const {
  if (dispute_->is_over() || segment().failure().state.load(std::memory_order_acquire) != 0) return true;
  for (int r = 0; r < size(); ++r) {
    if (r != engine_.rank_ && !has_arrived(r)) return false;
  }
  return true;
}

// The next call waits for a rank that is not here yet, before anything of this step is overwritten.
void LockstepTask::leave() {
  const std::uint32_t step = engine_.step_;
  phase_ = Phase::done;
  dispute_.reset();
  engine_.batch_.clear();
  std::vector<int> here;
  std::vector<Ballot> ballots;
  for (int r = 0; r < size(); ++r) {
    if (r != engine_.rank_ && !segment().has_arrived(r, step)) {
      engine_.ragged_ = true;
      continue;
    }
    const Line& line = segment().line(r, step);
    here.push_back(r);
    ballots.push_back(ballot_of(segment().name_of(r), line.signature, line.get_label()));
  }
  const bool same_signature = std::ranges::all_of(ballots, [&](const Ballot& ballot) { return ballot.key == ballots.front().key; });
  const Decision decision = same_signature ? decide_between(here) : decide(ballots);
  throw disagreement_on(call(), segment().name_of(engine_.rank_), decision, std::move(ballots));
}

std::vector<int> LockstepTask::waiting_for() const {
  if (direct_) return direct_->waiting_for();
  std::vector<int> ranks;
  if (phase_ != Phase::wait && phase_ != Phase::settle && phase_ != Phase::dispute) return ranks;
  for (int r = 0; r < size(); ++r) {
    if (r != engine_.rank_ && !segment().has_arrived(r, engine_.step_)) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace unisono::engines::shm

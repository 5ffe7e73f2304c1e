#include "unisono/work.h"

#include <utility>

#include "base/error_text.h"
#include "base/log.h"
#include "group/group.h"
#include "group/progress/progress.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono {

bool detail::WorkState::end_well(const Arrival& of_receive) noexcept {
  std::uint64_t now = word.load(std::memory_order_relaxed);
  if ((now & listened_mark) != 0) return false;
  arrival = of_receive;
  settled = true;
  went_well.store(true, std::memory_order_release);
  while (!word.compare_exchange_weak(now, (now | done_mark) - holder, std::memory_order_acq_rel, std::memory_order_relaxed)) {
    if ((now & listened_mark) != 0) return false;
  }
  if (is_unheld(now - holder)) dispose();
  return true;
}

Work group::StatePtr::work() const noexcept {
  state_->word.fetch_add(detail::WorkState::work, std::memory_order_relaxed);
  return Work(state_);
}

Work::Work(const Work& other) noexcept : state_(other.state_) {
  if (state_ != nullptr) state_->word.fetch_add(detail::WorkState::work, std::memory_order_relaxed);
}

void Work::drop() noexcept {
  using State = detail::WorkState;
  State& state = *state_;
  if (state.went_well.load(std::memory_order_acquire)) {
    const std::uint64_t now = state.word.load(std::memory_order_acquire);
    const bool is_alone = State::is_unheld(now - State::work);
    if (is_alone || State::is_unheld(state.word.fetch_sub(State::work, std::memory_order_acq_rel) - State::work)) state.dispose();
    return;
  }
  constexpr std::uint64_t becomes_holder = State::holder - State::work;
  const std::uint64_t left = state.word.fetch_add(becomes_holder, std::memory_order_acq_rel) + becomes_holder;
  if (left < State::work) {
    const std::lock_guard lock(state.mutex);
    state.dropped = true;
    state.dropped_after = state.lane->last_call.load(std::memory_order_relaxed);
    if (state.error && !state.seen) state.lane->deferred.set(state.error, group::DeferredError::no_queued_call);
  }
  state.let_go();
}

std::exception_ptr Work::error() const {
  if (state_->went_well.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(state_->mutex);
  state_->seen = true;
  return state_->error;
}

// An operation that a device has is enqueued before it is settled.
bool Work::is_settled() const {
  if (state_->went_well.load(std::memory_order_acquire)) return true;
  if (!state_->is_done()) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->is_settled();
}

void group::call_back(const std::function<void()>& callback) noexcept {
  try {
    callback();
  } catch (...) {  // it may not throw, and the log is all that can be told
    base::warn("a callback given to on_completion failed: " + base::what_of(std::current_exception()));
  }
}

namespace {
void check_process(const char* operation) {
  if (group::in_forked_child()) throw NotInitialized("this process was forked from the one that started the operation", {.operation = operation});
}
}  // namespace

void detail::WorkState::order_stream() {
  if (!completion) return;
  try {
    completion->order(current_stream());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& wrong) {
    throw Error(wrong.what(), {.operation = "wait", .hint = "is the current stream one that lives, of this process's device?"});
  }
}

void Work::wait() {
  if (state_ == nullptr) return;
  check_process("wait");
  state_->progress->wait(*state_);
  if (auto error = this->error()) std::rethrow_exception(error);
  state_->order_stream();
}

bool Work::wait_for(std::chrono::milliseconds timeout) {
  if (state_ == nullptr) return true;
  check_process("wait");
  const base::Deadline deadline(timeout);
  if (!state_->progress->wait_until([&] { return is_settled(); }, deadline)) return false;
  if (auto error = this->error()) std::rethrow_exception(error);
  return true;
}

bool Work::cancel() {
  if (state_ == nullptr || is_settled()) return false;
  check_process("cancel");
  return state_->progress->cancel(*state_);
}

// A program that asks again and again counts on somebody else to advance the operation.
bool Work::is_completed() const {
  if (state_ == nullptr || is_settled()) return true;
  state_->progress->need_thread();
  return false;
}

std::exception_ptr Work::exception() const { return is_completed() && state_ != nullptr ? error() : nullptr; }

void Work::on_completion(std::function<void()> callback) {
  if (state_ != nullptr) {
    detail::WorkState& state = *state_;
    std::unique_lock lock(state.mutex);
    if (!state.is_settled()) {
      state.then.push_back(std::move(callback));
      state.word.fetch_or(detail::WorkState::listened_mark, std::memory_order_acq_rel);
      if (!state.is_settled()) {
        lock.unlock();
        return state.progress->need_thread();
      }
      // It has ended meanwhile, and its end has not seen the callback.
      callback = std::move(state.then.back());
      state.then.pop_back();
    }
  }
  group::call_back(callback);
}

int Work::source_rank() const {
  if (state_ == nullptr || !is_settled()) return -1;
  const std::lock_guard lock(state_->mutex);
  return state_->arrival.source;
}

int Work::tag() const {
  if (state_ == nullptr || !is_settled()) return 0;
  const std::lock_guard lock(state_->mutex);
  return state_->arrival.tag;
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::size_t wait_any(std::span<Work> works) {
  if (works.empty()) throw InvalidArgument("there is nothing to wait for", {.operation = "wait_any"});
  const auto find_done = [&] {
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i].state_ == nullptr || works[i].is_settled()) return i;
    }
    return works.size();
  };
  std::size_t index = find_done();
  if (index == works.size()) {
    works[0].drive_until([&] { return (index = find_done()) < works.size(); });
  }
  works[index].wait();
  return index;
}

void Work::drive_until(const std::function<bool()>& done) { state_->progress->wait_until(done); }

}  // namespace unisono

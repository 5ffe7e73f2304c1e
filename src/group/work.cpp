#include "unisono/work.h"

#include <utility>

#include "base/error_text.h"
#include "base/log.h"
#include "group/group.h"
#include "group/progress.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono {

/// The part that the copies of a Work share. It notices when the last one goes.
struct Work::Handle {
  explicit Handle(std::shared_ptr<detail::WorkState> s) : state(std::move(s)) {}
  ~Handle() {
    if (state->went_well.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(state->mutex);
    state->dropped = true;
    state->dropped_after = state->lane->last_call.load(std::memory_order_relaxed);
    if (state->error && !state->seen) state->lane->deferred.set(state->error, group::DeferredError::no_queued_call);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::exception_ptr error() {
    if (state->went_well.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard lock(state->mutex);
    state->seen = true;
    return state->error;
  }
  /// An operation that a device has is enqueued before it is settled.
  bool is_settled() const {
    if (!state->done.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(state->mutex);
    return state->is_settled();
  }
  std::shared_ptr<detail::WorkState> state;
};

void group::call_back(const std::function<void()>& callback) noexcept {
  try {
    callback();
  } catch (...) {  // it may not throw, and the log is all that can be told
    base::warn("a callback given to on_completion failed: " + base::what_of(std::current_exception()));
  }
}

namespace {
void check_process() {
  if (group::in_forked_child()) throw NotInitialized("this process was forked from the one that started the operation", {.operation = "wait"});
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

Work::Work(std::shared_ptr<detail::WorkState> state) : handle_(std::make_shared<Handle>(std::move(state))) {}

void Work::wait() {
  if (!handle_) return;
  check_process();
  handle_->state->progress->wait(*handle_->state);
  if (auto error = handle_->error()) std::rethrow_exception(error);
  handle_->state->order_stream();
}

bool Work::wait_for(std::chrono::milliseconds timeout) {
  if (!handle_) return true;
  check_process();
  const base::Deadline deadline(timeout);
  if (!handle_->state->progress->wait_until([&] { return handle_->is_settled(); }, deadline)) return false;
  if (auto error = handle_->error()) std::rethrow_exception(error);
  return true;
}

bool Work::is_completed() const { return !handle_ || handle_->is_settled(); }

std::exception_ptr Work::exception() const { return is_completed() && handle_ ? handle_->error() : nullptr; }

void Work::on_completion(std::function<void()> callback) {
  if (handle_) {
    detail::WorkState& state = *handle_->state;
    const std::lock_guard lock(state.mutex);
    if (!state.is_settled()) return state.then.push_back(std::move(callback));
  }
  group::call_back(callback);
}

int Work::source_rank() const {
  if (!handle_ || !is_completed()) return -1;
  const std::lock_guard lock(handle_->state->mutex);
  return handle_->state->arrival.source;
}

int Work::tag() const {
  if (!handle_ || !is_completed()) return 0;
  const std::lock_guard lock(handle_->state->mutex);
  return handle_->state->arrival.tag;
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
      if (works[i].is_completed()) return i;
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

void Work::drive_until(const std::function<bool()>& done) { handle_->state->progress->wait_until(done); }

}  // namespace unisono

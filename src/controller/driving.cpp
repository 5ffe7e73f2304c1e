// The part of the controller that waits for what its workers send, and takes it.

#include <algorithm>
#include <array>
#include <utility>

#include "base/error_place.h"
#include "base/switches.h"
#include "controller/core.h"
#include "unisono/error.h"

namespace unisono::controller {

void Core::start_receive(Worker& worker) {
  if (!worker.head) worker.head = std::make_unique<Head>();
  worker.receive = worker.link->start_receive(worker.head.get(), sizeof *worker.head);
  watched_.push_back(detail::WorkAccess::state_of(worker.receive));
}

void Core::wait_for_frames(const base::Deadline* deadline) {
  const auto may_have_come = [this] {
    return stop_.load(std::memory_order_relaxed) || leaves_.load(std::memory_order_relaxed) ||
           std::ranges::any_of(watched_, [](const detail::WorkState* state) { return state == nullptr || state->is_done(); });
  };
  if (deadline != nullptr) progress_->wait_until(may_have_come, *deadline);
  else progress_->wait_until(may_have_come);
}

bool Core::drive(Lock& lock, const std::function<bool()>& done, const base::Deadline* deadline) {
  bool is_done = false;
  while (!(is_done = done()) && (deadline == nullptr || !deadline->passed())) {
    if (is_driven_) {
      ++waiters_;
      const auto longest = deadline != nullptr ? std::min(deadline->left(), base::interruption_period) : base::interruption_period;
      changed_.wait_for(lock, longest);
      --waiters_;
      base::check_interruption(lock);
      continue;
    }
    is_driven_ = true;
    lock.unlock();
    std::exception_ptr interrupted;
    try {
      wait_for_frames(deadline);
    } catch (...) {  // of an interruption check
      interrupted = std::current_exception();
    }
    lock.lock();
    take_frames(lock);
    is_driven_ = false;
    if (waiters_ > 0) changed_.notify_all();
    run_callbacks(lock);
    if (interrupted) std::rethrow_exception(interrupted);
    if (stop_.load() && ended_) return done();
  }
  run_callbacks(lock);
  return is_done;
}

void Core::poll() {
  Lock lock(mutex_);
  if (is_driven_) return;
  is_driven_ = true;
  lock.unlock();
  progress_->look_once();
  lock.lock();
  take_frames(lock);
  is_driven_ = false;
  if (waiters_ > 0) changed_.notify_all();
  run_callbacks(lock);
}

void Core::take_frames(Lock& lock) {
  const bool any = std::ranges::any_of(watched_, [](const detail::WorkState* state) { return state == nullptr || state->is_done(); });
  if (!any) return;
  watched_.clear();
  for (int i = 0; i < size(); ++i) {
    if (at(i).failure) drop_answer(at(i));
    else if (at(i).link) take_frame(i, lock);
  }
}

void Core::take_frame(int number, Lock& lock) {
  Worker& worker = at(number);
  try {
    if (!worker.rest) {
      detail::WorkState* const state = detail::WorkAccess::state_of(worker.receive);
      if (state != nullptr && !state->is_done()) return watched_.push_back(state);
      worker.receive.wait();  // it is done; throws its error
      worker.link->check(*worker.head);
      worker.link->sweep(left_);
      worker.answered = answered_by(worker, *worker.head);
      if (!worker.answered) return start_receive(worker);
      worker.rest = std::make_shared<Incoming>(*worker.link, *worker.head, Incoming::Receives::start);
    }
    if (!take_rest(worker, lock)) return;
    finish_answer(worker);
    start_receive(worker);
  } catch (...) {
    lose(number, std::current_exception());
  }
  if (worker.failure) drop_answer(worker);
}

std::shared_ptr<Call> Core::answered_by(Worker& worker, const Head& head) {
  auto& calls = worker.under_way;
  const auto is_before = [&] { return !calls.empty() && calls.front()->sequence() < head.sequence; };
  while (is_before() || (head.kind == Kind::acknowledged && !calls.empty() && calls.front()->sequence() == head.sequence)) {
    if (calls.front()->has_result()) throw ProtocolError("a worker has left out the result of a call");
    const auto call = std::move(calls.front());
    calls.pop_front();
    finish(call, {}, nullptr);
  }
  if (head.kind == Kind::acknowledged) return nullptr;
  // Parts of nothing but a result lie in the memory that the call has asked for.
  if (head.kind != Kind::result && head.kind != Kind::error && head.kind != Kind::cancelled)
    throw ProtocolError("a worker has sent something that a controller does not understand");
  if (calls.empty() || calls.front()->sequence() != head.sequence) throw ProtocolError("a worker has answered a call that was not made");
  return calls.front();
}

namespace {

/// Calls the function with the lock released meanwhile.
template <class F>
void without(CallDriver::Lock& lock, F&& f) {
  std::exception_ptr error;
  lock.unlock();
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) std::rethrow_exception(error);
}

}  // namespace

bool Core::take_rest(Worker& worker, Lock& lock) {
  Incoming& rest = *worker.rest;
  if (rest.is_inside()) return true;
  // Without the lock another thread may lose the worker, or end the controller. The answer and its call stay meanwhile.
  const auto is_wanted = [&] { return !worker.failure && !worker.under_way.empty() && worker.under_way.front() == worker.answered; };
  const auto is_awaited = [&] {
    detail::WorkState* const state = rest.awaited();
    if (state != nullptr) watched_.push_back(state);
    return state != nullptr;
  };
  if (!is_wanted() || is_awaited()) return false;
  if (!rest.is_open()) {
    const auto memory = worker.head->kind == Kind::result ? worker.answered->memory() : nullptr;
    without(lock, [&] { rest.open(memory ? *memory : detail::PartMemory()); });
    if (!is_wanted()) return false;
    rest.start_parts();
    if (is_awaited()) return false;
  }
  without(lock, [&] { rest.check(); });
  return is_wanted();
}

void Core::finish_answer(Worker& worker) {
  const std::shared_ptr<Call> call = worker.answered;
  std::exception_ptr error = worker.rest->error();
  detail::Frame result;
  if (!error) result = worker.rest->take();
  worker.rest = nullptr;      // nothing of the program's is left in it
  worker.answered = nullptr;  // `finish` keeps it
  worker.under_way.pop_front();
  if (!error && worker.head->kind == Kind::error) error = decode_error(result.body, call->text(worker.host, worker.rank));
  else if (worker.head->kind == Kind::cancelled) error = cancelled_call(call->text(worker.host, worker.rank));
  if (error) leave(std::make_shared<detail::Frame>(std::exchange(result, {})));
  finish(call, std::move(result), std::move(error));
}

void Core::drop_answer(Worker& worker) {
  leave(std::move(worker.answered));
  leave(std::move(worker.rest));
}

}  // namespace unisono::controller

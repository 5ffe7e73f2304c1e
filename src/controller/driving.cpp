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
  worker.receive = worker.link->start_receive(*worker.head);
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
  while (!done()) {
    if (deadline != nullptr && deadline->passed()) return false;
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
    take_frames();
    is_driven_ = false;
    if (waiters_ > 0) changed_.notify_all();
    run_callbacks(lock);
    if (interrupted) std::rethrow_exception(interrupted);
    if (stop_.load() && ended_) return done();
  }
  return true;
}

void Core::poll() {
  Lock lock(mutex_);
  if (is_driven_) return;
  is_driven_ = true;
  lock.unlock();
  progress_->look_once();
  lock.lock();
  take_frames();
  is_driven_ = false;
  if (waiters_ > 0) changed_.notify_all();
  run_callbacks(lock);
}

void Core::take_frames() {
  const bool any = std::ranges::any_of(watched_, [](const detail::WorkState* state) { return state == nullptr || state->is_done(); });
  if (!any) return;
  watched_.clear();
  for (int i = 0; i < size(); ++i) {
    Worker& worker = at(i);
    if (!worker.link || worker.failure) continue;
    const detail::WorkState* const state = detail::WorkAccess::state_of(worker.receive);
    if (state == nullptr || state->is_done()) take_frame(i);
    else watched_.push_back(detail::WorkAccess::state_of(worker.receive));
  }
}

void Core::take_frame(int number) {
  Worker& worker = at(number);
  try {
    worker.receive.wait();  // it is done; throws its error
    worker.link->check(*worker.head);
    take_answer(worker, *worker.head);
    start_receive(worker);
  } catch (...) {
    lose(number, std::current_exception());
  }
}

void Core::take_answer(Worker& worker, const Head& head) {
  auto& calls = worker.under_way;
  const auto is_before = [&] { return !calls.empty() && calls.front()->sequence() < head.sequence; };
  while (is_before() || (head.kind == Kind::acknowledged && !calls.empty() && calls.front()->sequence() == head.sequence)) {
    if (calls.front()->has_result()) throw ProtocolError("a worker has left out the result of a call");
    const auto call = std::move(calls.front());
    calls.pop_front();
    finish(call, {}, nullptr);
  }
  if (head.kind == Kind::acknowledged) return;
  // Parts of nothing but a result lie in the memory that the call has asked for.
  if (head.kind != Kind::result && head.kind != Kind::error && head.kind != Kind::cancelled)
    throw ProtocolError("a worker has sent what no controller understands");
  if (calls.empty() || calls.front()->sequence() != head.sequence) throw ProtocolError("a worker has answered a call that was not made");
  const std::shared_ptr<Call> call = calls.front();
  detail::Frame result;
  std::exception_ptr error;
  try {
    result = worker.link->receive_rest(head, head.kind == Kind::result ? call->memory() : detail::PartMemory());
  } catch (const PeerFailed&) {
    throw;
  } catch (const ProtocolError&) {
    throw;
  } catch (...) {  // of the memory for its parts
    error = std::current_exception();
  }
  calls.pop_front();
  if (head.kind == Kind::error) error = decode_error(result.body, call->text(worker.host));
  else if (head.kind == Kind::cancelled) error = cancelled_call(call->text(worker.host));
  if (error) result = {};
  finish(call, std::move(result), std::move(error));
}

}  // namespace unisono::controller

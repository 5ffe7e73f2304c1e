#include "controller/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error_text.h"
#include "base/log.h"
#include "base/switches.h"
#include "controller/functions.h"
#include "unisono/error.h"

namespace unisono::controller {

namespace {
thread_local int callbacks_of_thread = 0;  // that this thread is in
}  // namespace

void Core::connect(std::vector<std::unique_ptr<FrameLink>> links, const Roster& roster) {
  const Lock lock(mutex_);
  workers_.resize(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    workers_[i].link = std::move(links[i]);
    workers_[i].host = roster.hosts[i];
    workers_[i].rank = roster.rank_of[i];
    start_receive(workers_[i]);
  }
}

void Core::reconnect(std::shared_ptr<group::Progress> progress, std::vector<std::unique_ptr<FrameLink>> links, const Roster& roster) {
  const Lock lock(mutex_);
  progress_ = std::move(progress);
  for (std::size_t i = 0; i < links.size(); ++i) {
    Worker& worker = workers_[i];
    worker.link = std::move(links[i]);
    worker.host = roster.hosts[i];
    worker.rank = roster.rank_of[i];
    if (!worker.link) {
      if (!worker.failure) worker.failure = std::make_exception_ptr(PeerFailed("it was lost while the members changed"));
      continue;
    }
    if (std::exchange(worker.failure, nullptr)) ++worker.generation;
    start_receive(worker);
  }
}

void Core::disconnect() {
  Lock lock(mutex_);
  // A driver has nobody left to wait for, but may not know it yet.
  leaves_.store(true);
  ++waiters_;
  changed_.wait(lock, [this] { return !is_driven_; });
  --waiters_;
  leaves_.store(false);
  watched_.clear();
  std::vector<std::pair<std::unique_ptr<FrameLink>, Work>> links;
  for (Worker& worker : workers_) {
    drop_answer(worker);
    if (worker.link) worker.link->sweep(left_);
    links.emplace_back(std::move(worker.link), std::exchange(worker.receive, {}));
    finish_all(worker, std::make_exception_ptr(PeerFailed("the members changed before the call ran")));
  }
  run_callbacks(lock);
  lock.unlock();
  for (auto& link : links) let_go(link.second);  // the heads stay where they are while they may be written
}

void Core::give_up(const std::exception_ptr& why) {
  const Lock lock(mutex_);
  const auto lost = std::make_exception_ptr(PeerFailed("the members could not be changed: " + base::message_of(why)));
  for (Worker& worker : workers_) {
    if (!worker.link && !worker.failure) worker.failure = lost;
  }
}

Worker& Core::at(int worker) {
  if (worker < 0 || worker >= size())
    throw InvalidArgument(fmt::format("the number of a worker must be from 0 to {}, not {}", size() - 1, worker), {.operation = "call"});
  return workers_[static_cast<std::size_t>(worker)];
}

std::shared_ptr<detail::RemoteCall> Core::begin(int number, detail::RemoteRequest&& request) {
  check_limit(request.arguments, "the arguments have");
  detail::Frame arguments = std::move(request.arguments);  // what is left of it goes without the lock
  Lock lock(mutex_);
  Worker& worker = at(number);
  const auto is_full = [&] { return std::cmp_greater_equal(worker.under_way.size(), most_in_flight_); };
  if (is_full()) {
    flush_for(*worker.under_way.back());
    drive(
        lock, [&] { return !is_full(); }, nullptr);
  }
  if (ended_) throw error_when_over();
  const Head head{.kind = Kind::call,
                  .has_result = static_cast<std::uint8_t>(request.has_result),
                  .sequence = ++worker.last,
                  .function = number_of(*request.function),
                  .object = request.object};
  const auto call = std::make_shared<Call>(shared_from_this(), number, head.sequence, std::move(request));
  if (worker.failure || !worker.link) {
    const auto changing = [] { return std::make_exception_ptr(PeerFailed("the members are changing")); };
    finish(call, {}, lost_worker(worker.failure ? worker.failure : changing(), call->text(worker.host, worker.rank)));
    run_callbacks(lock);
    return call;
  }
  worker.under_way.push_back(call);
  send(number, head, std::move(arguments));
  run_callbacks(lock);
  return call;
}

void Core::release(int number, std::uint64_t object) noexcept {
  try {
    Lock lock(mutex_);
    if (ended_ || at(number).failure) return;
    send(number, {.kind = Kind::release, .object = object});
    run_callbacks(lock);
  } catch (const std::exception& error) {  // the worker drops its objects at its end
    base::debug(error.what());
  }
}

std::exception_ptr Core::failure(int number) {
  const Lock lock(mutex_);
  const Worker& worker = at(number);
  if (ended_) return std::make_exception_ptr(error_when_over());
  return worker.failure ? lost_worker(worker.failure, {.worker = number, .host = worker.host, .rank = worker.rank}) : nullptr;
}

int Core::generation(int number) {
  const Lock lock(mutex_);
  return at(number).generation;
}

bool Core::has_ended() {
  const Lock lock(mutex_);
  return ended_.has_value();
}

NotInitialized Core::error_when_over() const {
  return NotInitialized(ended_->empty() ? std::string("the controller has ended") : fmt::format("the controller has ended: {}", *ended_),
                        {.operation = "call", .group = base::group_of_workers});
}

void Core::tell_all(Kind kind) {
  Lock lock(mutex_);
  for (int i = 0; i < size(); ++i) {
    if (!at(i).failure && at(i).link) send(i, {.kind = kind});
  }
  run_callbacks(lock);
}

void Core::finish_calls() {
  Lock lock(mutex_);
  const auto are_done = [&] { return std::ranges::all_of(workers_, [](const Worker& worker) { return worker.under_way.empty(); }); };
  while (!ended_) {
    for (const Worker& worker : workers_) {
      if (!worker.under_way.empty()) flush_for(*worker.under_way.back());
    }
    drive(lock, are_done, nullptr);
    if (!are_done()) continue;
    if (callbacks_.empty() && running_ <= callbacks_of_thread) return;
    ++waiters_;  // a callback in another thread may make further calls
    changed_.wait_for(lock, base::interruption_period);
    --waiters_;
    base::check_interruption(lock);
  }
}

void Core::end(std::string_view reason) {
  stop_.store(true);
  {
    Lock lock(mutex_);
    if (!ended_) ended_ = reason;
    for (Worker& worker : workers_) {
      while (!worker.under_way.empty()) {
        const auto call = std::move(worker.under_way.front());
        worker.under_way.pop_front();
        finish(call, {}, std::make_exception_ptr(error_when_over()));
      }
    }
    changed_.notify_all();
    run_callbacks(lock);
  }
  thread_.join();
}

void Core::abort(std::string_view reason) {
  const Lock lock(mutex_);
  for (Worker& worker : workers_) {
    if (worker.link && !worker.failure) worker.link->abort(reason);
  }
}

// The error of the group is for this worker alone: no other call depends on it.
void Core::lose(int number, const std::exception_ptr& why) {
  Worker& worker = at(number);
  if (worker.failure) return;
  worker.failure = why;
  try {  // its receive ends as well, which wakes the driver
    if (worker.link && !base::is_a<PeerFailed>(why)) worker.link->abort(base::message_of(why));
  } catch (const std::exception& error) {
    base::debug(error.what());
  }
  finish_all(worker, why);
  if (waiters_ > 0) changed_.notify_all();
}

void Core::finish_all(Worker& worker, const std::exception_ptr& why) {
  while (!worker.under_way.empty()) {
    const auto call = std::move(worker.under_way.front());
    worker.under_way.pop_front();
    finish(call, {}, lost_worker(why, call->text(worker.host, worker.rank)));
  }
}

void Core::send(int number, const Head& head, detail::Frame&& frame) {
  const Worker& worker = at(number);
  if (!worker.link) return;  // the members are changing; a worker that stays has nothing to do with it
  try {
    worker.link->sweep(left_);
    worker.link->send(head, std::move(frame));
  } catch (...) {
    lose(number, std::current_exception());
  }
}

void Core::finish(const std::shared_ptr<Call>& call, detail::Frame&& result, std::exception_ptr error) {
  if (call->has_listeners()) --listened_;
  leave(call);  // its last holder may be here, and it holds a result and functions of the program's
  leave(call->take_memory());
  auto listeners = call->end(std::move(result), std::move(error));
  std::ranges::move(listeners, std::back_inserter(callbacks_));
}

void Core::flush_for(const Call& call) {
  Worker& worker = at(call.worker());
  if (call.has_result() || call.is_done() || worker.failure || worker.flushed >= call.sequence()) return;
  worker.flushed = worker.last;
  send(call.worker(), {.kind = Kind::flush, .sequence = worker.last});
}

void Core::cancel(const Call& call) {
  if (!at(call.worker()).failure) send(call.worker(), {.kind = Kind::cancel, .sequence = call.sequence()});
}

void Core::run_callbacks(Lock& lock) {
  while (!callbacks_.empty() || !left_.empty()) {
    Callbacks now = std::exchange(callbacks_, {});
    auto left = std::exchange(left_, {});
    ++running_;
    lock.unlock();
    ++callbacks_of_thread;
    for (const auto& callback : now) group::call_back(callback);
    now.clear();  // what they hold may come back here, as the last handle to an object does
    left.clear();
    --callbacks_of_thread;
    lock.lock();
    --running_;
    if (waiters_ > 0) changed_.notify_all();
  }
}

void Core::need_thread() {
  ++listened_;
  if (!thread_.joinable()) thread_ = base::Thread("the results of a controller", [this] { see_to_calls(); });
  changed_.notify_all();
}

void Core::see_to_calls() {
  Lock lock(mutex_);
  while (!stop_.load()) {
    if (listened_ == 0) changed_.wait(lock);
    else
      drive(
          lock, [this] { return listened_ == 0 || stop_.load(); }, nullptr);
  }
}

}  // namespace unisono::controller

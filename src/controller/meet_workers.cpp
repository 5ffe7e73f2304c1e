// The meeting of a controller and its workers, from what each process is: alone, a rank of a job, or a thread.

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/error_place.h"
#include "base/error_text.h"
#include "base/log.h"
#include "context/state.h"
#include "context/world.h"
#include "controller/functions.h"
#include "controller/serving.h"
#include "controller/workers.h"
#include "group/fork_guard.h"
#include "rendezvous/identity.h"
#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono {
namespace controller {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(what, {.operation = "Controller", .hint = hint});
}

void check(const ControllerOptions& options) {
  if (options.workers < 0) refuse(fmt::format("the number of workers must not be negative, and is {}", options.workers));
  if (options.most_in_flight < 1) refuse(fmt::format("most_in_flight must be at least 1, and is {}", options.most_in_flight));
  if (options.timeout.count() <= 0) refuse("the timeout must be positive");
  if (Place::current() != nullptr) refuse("this process has a controller, or is a worker of one", "a process has one controller at a time");
  check_registered_once();
}

void check_size(int ranks) {
  if (ranks >= 2) return;
  refuse("this process is alone, and a controller needs workers",
         "start the program with `unisono run -n 5`, or have it start its workers: Controller({.workers = 4})");
}

/// Ends this process's part in the job of a controller that is lost.
int end_with(const std::exception_ptr& why, context::State& whole) {
  const std::string text = base::message_of(why);
  if (context::of_thread() != nullptr) std::rethrow_exception(why);
  base::log(base::LogLevel::error, fmt::format("this worker ends, because its controller is lost: {}", text));
  whole.launcher.tell_controller_lost(text);
  context::abandon(whole, coordination::Leaving::by_exception);
  context::exchange_current(nullptr);
  return 1;
}

/// Serves until the members change, or to the end.
ServiceEnd serve_once(context::State& whole, const Roster& roster, const ControllerOptions& options, Objects& objects, std::exception_ptr& error) {
  auto link = link_to_controller(whole);
  const auto workers = form_workers(whole, roster, options);
  const Place place(roster, ProcessGroup(whole.whole), workers->world);
  whole.launcher.tell_controlled();
  struct Within {
    context::State* const whole;
    explicit Within(context::State* workers) : whole(context::exchange_current(workers)) {}
    ~Within() { context::exchange_current(whole); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
  };
  Service service(std::move(link), roster.own, objects, *whole.recorder);
  ServiceEnd end{};
  {
    const Within within(workers.get());
    end = service.run();
    if (end != ServiceEnd::regroup) objects.clear();  // their destructors may still ask for their rank
  }
  error = service.error();
  if (end == ServiceEnd::lost) context::abandon(*workers, coordination::Leaving::by_exception);
  else context::leave(*workers, coordination::Leaving::in_order);
  return end;
}

}  // namespace

int serve(const ControllerOptions& options, std::source_location where) {
  Roster roster = meet(context::current(), {}, where);
  Objects objects;
  for (;;) {
    std::exception_ptr error;
    const ServiceEnd end = serve_once(context::current(), roster, options, objects, error);
    if (end == ServiceEnd::lost) return end_with(error, context::current());
    if (end == ServiceEnd::in_order) break;
    try {
      take_newcomers_in(base::longest_timeout);
      roster = meet(context::current(), {.worker = roster.own}, where);
    } catch (const PeerFailed&) {
      return end_with(std::current_exception(), context::current());
    }
  }
  if (context::of_thread() == nullptr) finalize();
  return 0;
}

namespace {

detail::RemoteMeeting take_place(const ControllerOptions& options, std::source_location where) {
  check(options);
  const bool is_launched = rendezvous::launched_as_many(base::Environment::process());
  if (is_initialized() || is_launched || options.workers == 0) {
    std::unique_ptr<Context> context;
    if (!is_initialized()) {
      if (!is_launched) check_size(world_size());
      context = std::make_unique<Context>(InitOptions{.backend = options.backend, .timeout = options.timeout});
    }
    check_size(world_size());
    if (rank() == 0) return {.workers = std::make_shared<Workers>(options, nullptr, std::move(context), where)};
    try {
      const int exit_code = serve(options, where);
      static_cast<void>(context.release());  // it has been finalized
      return {.workers = nullptr, .exit_code = exit_code};
    } catch (const Mismatch&) {  // of the meeting
      context.reset();
      throw;
    }
  }
  if (group::is_guarded_against_fork()) {
    refuse("this process is part of a job already, and its threads would be missing in forked workers", "make the controller before `initialize`");
  }
  ControllerOptions of_worker = options;
  of_worker.workers = 0;
  auto local = std::make_unique<LocalJob>(options, [of_worker, where] { return serve(of_worker, where); });
  auto context = std::make_unique<Context>(local->init_options());
  return {.workers = std::make_shared<Workers>(options, std::move(local), std::move(context), where)};
}

struct Observers {
  std::mutex mutex;
  std::vector<void (*)(const std::shared_ptr<detail::RemoteWorkers>&)> functions;
  std::weak_ptr<detail::RemoteWorkers> last;
};

Observers& observers() {
  static Observers& all = *new Observers;  // threads may ask while static objects are destroyed
  return all;
}

}  // namespace
}  // namespace controller

detail::RemoteMeeting detail::meet_workers(const ControllerOptions& options, std::source_location where) {
  auto meeting = base::with_place(where, [&] { return controller::take_place(options, where); });
  if (!meeting.workers) return meeting;
  auto& observers = controller::observers();
  const std::lock_guard lock(observers.mutex);
  observers.last = meeting.workers;
  for (const auto met : observers.functions) met(meeting.workers);
  return meeting;
}

void detail::observe_workers(void (*met)(const std::shared_ptr<RemoteWorkers>& workers)) {
  auto& observers = controller::observers();
  const std::lock_guard lock(observers.mutex);
  observers.functions.push_back(met);
  if (const auto workers = observers.last.lock()) met(workers);
}

}  // namespace unisono

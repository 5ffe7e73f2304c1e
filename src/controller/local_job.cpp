#include "controller/local_job.h"

#include <fmt/format.h>

#include <csignal>
#include <iostream>
#include <utility>

#include "base/deadline.h"
#include "base/error_text.h"
#include "base/log.h"
#include "context/state.h"
#include "launch/job/supervisor.h"
#include "launch/process/host.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/reach.h"
#include "store/wrappers.h"
#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono::controller {
namespace {

using base::Environment;
using namespace std::chrono_literals;

/// A worker that does not end has so long after the controller's end.
constexpr auto grace = std::chrono::seconds(15);

/// Makes the options by which a rank joins the job of a launcher that is a thread of rank 0. The death of another rank ends the wait.
InitOptions init_options_of(const ControllerOptions& options, const std::shared_ptr<Store>& launcher, int rank) {
  const auto watched = std::make_shared<store::WatchedStore>(launcher, [launcher] { rendezvous::throw_if_a_rank_ended(*launcher); });
  return {
      .backend = options.backend, .rank = rank, .world_size = options.workers + 1, .local_rank = rank, .timeout = options.timeout, .store = watched};
}

std::shared_ptr<Store> store_of(const ControllerOptions& options, const Environment& variables) {
  return rendezvous::launcher_store(variables, base::Deadline(options.timeout));
}

int serve_as_rank(const ControllerOptions& options, const Environment& environment, const std::function<int()>& serve) {
  Environment::become(environment);
  try {
    const auto launcher = store_of(options, environment);
    unisono::initialize(init_options_of(options, launcher, environment.get_int("RANK").value()));
    context::State& state = *context::initialized();
    state.launcher.connect(launcher);
    state.launcher.tell("initialized");
    return serve();
  } catch (...) {
    std::cerr << "a worker could not begin: " << base::what_of(std::current_exception()) << std::endl;
    return 1;
  }
}

}  // namespace

LocalJob::LocalJob(const ControllerOptions& options, std::function<int()> serve) : options_(options) {
  if (options.workers >= launcher::most_ranks) {
    throw InvalidArgument(fmt::format("there are at most {} workers, not {}", launcher::most_ranks - 1, options.workers),
                          {.operation = "Controller"});
  }
  launcher::open_standard_descriptors();
  // The children are as the program: they take its signals.
  launcher_ = base::Thread(
      "the launcher of a controller", [this, options, serve = std::move(serve)] { run(options, serve); }, base::Thread::Signals::as_starter);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return variables_ || is_over_; });
  if (!failure_) return;
  lock.unlock();
  launcher_.join();
  std::rethrow_exception(failure_);
}

void LocalJob::run(const ControllerOptions& options, const std::function<int()>& serve) {
  launcher::JobOptions job;
  job.ranks = options.workers;
  job.ranks_before = 1;
  job.shown.output = launcher::OutputMode::inherited;
  job.shown.verbosity = launcher::Verbosity::silent;
  job.signals = launcher::SignalMode::left;
  job.function = [&](const Environment& environment) { return serve_as_rank(options, environment, serve); };
  job.started = [this](const Environment& variables, std::vector<pid_t> pids) {
    const std::lock_guard lock(mutex_);
    variables_ = variables;
    pids_ = std::move(pids);
    changed_.notify_all();
  };
  std::exception_ptr failure;
  try {
    launcher::run_job(job);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (!variables_) failure_ = failure;
  pids_.clear();
  is_over_ = true;
  changed_.notify_all();
}

InitOptions LocalJob::init_options() const { return init_options_of(options_, store_of(options_, *variables_), 0); }

/// Their numbers belong to them until the launcher's thread has ended: it reaps them last.
void LocalJob::kill_late() noexcept {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, has_met_ ? grace : 0s, [this] { return is_over_; })) return;
  if (has_met_) base::warn(fmt::format("workers that have not ended {} s after their controller are killed", grace.count()));
  for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
}

LocalJob::~LocalJob() {
  kill_late();
  launcher_.join();
}

}  // namespace unisono::controller

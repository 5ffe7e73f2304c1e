// Starts processes from within a program: a job of functions, beside which the program waits or goes on.

#include <fmt/format.h>

#include <exception>
#include <future>
#include <memory>

#include "base/thread.h"
#include "launch/api/function_job.h"
#include "rendezvous/plan.h"
#include "unisono/launch.h"
#include "unisono/store.h"

namespace unisono {

std::vector<detail::Bytes> detail::spawn(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body) {
  launcher::FunctionJob job(options, body);
  job.run(body);
  return job.take_results();
}

struct detail::Processes::State {
  explicit State(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body) : job(options, body) {}
  launcher::FunctionJob job;
  std::promise<void> begun, ended;
  std::future<void> end = ended.get_future();
  bool has_begun = false;  // used by the thread alone
  base::Thread thread;     // the kernel ends the processes with the thread that has forked them
};

detail::Processes::Processes(const SpawnOptions& options, const std::function<Bytes(int local_rank)>& body)
    : state_(std::make_unique<State>(options, body)) {
  State& state = *state_;
  const auto watch = [&state, &body] {
    try {
      state.job.run(body, [&state] {
        state.has_begun = true;
        state.begun.set_value();
      });
      state.ended.set_value();
    } catch (...) {
      (state.has_begun ? state.ended : state.begun).set_exception(std::current_exception());
    }
  };
  // This thread waits meanwhile, so that it holds no lock when the other one forks.
  state.thread = base::Thread("the processes of spawn_async", watch, base::Thread::Signals::as_starter);
  state.begun.get_future().get();
}

detail::Processes::~Processes() = default;
detail::Processes::Processes(Processes&&) noexcept = default;

std::vector<detail::Bytes> detail::Processes::join() {
  if (!state_->end.valid()) throw InvalidArgument("the processes have been joined before", {.operation = "join"});
  state_->end.get();
  return state_->job.take_results();
}

bool detail::Processes::wait_for(std::chrono::milliseconds time) {
  return !state_->end.valid() || state_->end.wait_for(time) == std::future_status::ready;
}

SpawnOptions detail::spawn_options(const LaunchOptions& options) {
  const auto refuse = [](const std::string& what) { throw InvalidArgument(what, {.operation = "launch"}); };
  if (options.num_machines < 1) refuse(fmt::format("num_machines must be at least 1, not {}", options.num_machines));
  if (options.num_gpus_per_machine < 1) refuse(fmt::format("num_gpus_per_machine must be at least 1, not {}", options.num_gpus_per_machine));
  if (options.machine_rank < 0 || options.machine_rank >= options.num_machines) {
    refuse(fmt::format("machine_rank must be from 0 to {}, not {}", options.num_machines - 1, options.machine_rank));
  }
  if (options.dist_url.empty() && options.num_machines > 1)
    refuse(fmt::format("{} machines need a dist_url at which they meet", options.num_machines));
  if (!options.dist_url.empty()) rendezvous::parse_url(options.dist_url);
  if (!launcher::runs_program_again()) launcher::check_not_within_a_job("launch");
  return {.backend = options.backend,
          .nproc_per_node = options.num_gpus_per_machine,
          .nnodes = options.num_machines,
          .node_rank = options.machine_rank,
          .init_method = options.dist_url,
          .timeout = options.timeout,
          .start_method = options.start_method};
}

InitOptions detail::world_of_one(const LaunchOptions& options) {
  return {.backend = options.backend, .rank = 0, .world_size = 1, .timeout = options.timeout, .store = std::make_shared<MemoryStore>()};
}

}  // namespace unisono

// The modes of fault_rank about initialize, finalize, fork and exit.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "fault_rank.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// "NAME: what it threw" or "NAME: fine".
template <class Call>
void attempt(const std::string& name, Call&& call) {
  try {
    call();
    say(name + ": fine");
  } catch (...) {
    say(name + ": " + describe_current_exception());
  }
}

/// A sum that shows that everybody is there: 1 + 2 + … + n.
void expect_sum() {
  const int n = world_size();
  const int sum = all_reduce(rank() + 1);
  if (sum != n * (n + 1) / 2) throw std::logic_error("the sum is " + std::to_string(sum));
}

void try_everything(const std::string& when) {
  std::vector<int> x{1};
  std::ostringstream nowhere;
  attempt(when + " rank", [] { static_cast<void>(rank()); });
  attempt(when + " world_size", [] { static_cast<void>(world_size()); });
  attempt(when + " local_rank", [] { static_cast<void>(local_rank()); });
  attempt(when + " nnodes", [] { static_cast<void>(nnodes()); });
  attempt(when + " dist_info", [] { static_cast<void>(dist_info()); });
  attempt(when + " backend", [] { static_cast<void>(backend()); });
  attempt(when + " model_name", [] { static_cast<void>(model_name()); });
  attempt(when + " device", [] { static_cast<void>(device()); });
  attempt(when + " world", [] { static_cast<void>(world()); });
  attempt(when + " show_config", [&] { show_config(nowhere); });
  attempt(when + " all_reduce", [&] { all_reduce(x); });
  attempt(when + " value", [] { static_cast<void>(all_reduce(1)); });
  attempt(when + " async", [&] { all_reduce_async(x).wait(); });
  attempt(when + " send", [&] { send(x, 0); });
  attempt(when + " barrier", [] { barrier(); });
}

int before_initialize() {
  say(fmt::format("launcher {} initialized {}", to_string(infer_launcher()), is_initialized()));
  try_everything("early");
  return 0;
}

int alone() {
  say(fmt::format("rank {} of {}, local {} of {}, node {} of {}, {}, initialized {}", rank(), world_size(), local_rank(), nproc_per_node(),
                  node_rank(), nnodes(), model_name(), is_initialized()));
  expect_sum();
  Context context;
  expect_sum();
  say(fmt::format("initialized {}", is_initialized()));
  return 0;
}

int twice() {
  initialize(options_from_environment());
  attempt("second initialize", [] { initialize(options_from_environment()); });
  attempt("second context", [] { Context context(options_from_environment()); });
  expect_sum();  // the first one is as it was
  const ProcessGroup group = world();
  std::vector<int> x{1};
  finalize();
  finalize();
  attempt("old group", [&] { all_reduce(x, ReduceOp::sum, group); });
  attempt("old group, async", [&] { all_reduce_async(x, ReduceOp::sum, group).wait(); });
  attempt("old group, send", [&] { send(x, (group.rank() + 1) % group.size(), group); });
  ProcessGroup copy = group;
  copy.abort("too late to matter");
  try_everything("after finalize");
  say(fmt::format("initialized {}", is_initialized()));
  return 0;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

struct Mappings {
  std::size_t of_groups = 0, of_records = 0;
};

/// Mappings of shared memory that only we make. The record of calls belongs to the process and stays until its end.
Mappings shared_mappings() {
  std::ifstream file("/proc/self/maps");
  Mappings count;
  for (std::string line; std::getline(file, line);) {
    if (line.find("memfd:unisono") == std::string::npos) continue;
    ++(line.find("memfd:unisono-record") == std::string::npos ? count.of_groups : count.of_records);
  }
  return count;
}

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

/// cycles N: one world after another.
int cycles(int times) {
  std::size_t descriptors = 0;
  for (int i = 0; i < times; ++i) {
    initialize(options_from_environment());
    expect_sum();
    std::vector<int> x(5, rank());
    all_reduce_async(x).wait();
    finalize();
    if (i == 1) descriptors = open_descriptors();
  }
  const Mappings mappings = shared_mappings();
  say(fmt::format("descriptors grew by {}, mappings {}, records {}, threads {}",
                  static_cast<long>(open_descriptors()) - static_cast<long>(descriptors), mappings.of_groups, mappings.of_records, threads()));
  return 0;
}

struct ThrownByAChild {};

int fork_after_initialize() {
  Context context(options_from_environment());
  expect_sum();
  const ProcessGroup group = world();
  const pid_t child = ::fork();
  if (child == 0) {
    say(fmt::format("child initialized {}", is_initialized()));
    try_everything("child");
    std::vector<int> x{1};
    attempt("child group", [&] { all_reduce(x, ReduceOp::sum, group); });
    attempt("child initialize", [] { initialize(); });
    attempt("child finalize", [] { finalize(); });
    std::exit(0);  // with everything that a process does at its end
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  say(fmt::format("child ended with {}", status));
  for (int i = 0; i < 100; ++i) expect_sum();
  const pid_t second = ::fork();
  if (second == 0) return 0;  // out of the scope of the Context, through main
  ::waitpid(second, &status, 0);
  say(fmt::format("child ended with {}", status));
  for (int i = 0; i < 100; ++i) expect_sum();
  const pid_t third = ::fork();
  if (third == 0) throw ThrownByAChild{};  // which gives up nothing of the parent's
  ::waitpid(third, &status, 0);
  say(fmt::format("child ended with {}", status));
  for (int i = 0; i < 100; ++i) expect_sum();
  say(fmt::format("parent initialized {}", is_initialized()));
  return 0;
}

int catching_what_a_child_throws() {
  try {
    return fork_after_initialize();
  } catch (const ThrownByAChild&) {
    return 0;
  }
}

/// at-exit HOW: static destruction with a context still there.
int at_exit(const std::string& how) {
  if (how == "static-context") {
    std::atexit([] { say(is_initialized() ? "at exit: a context is left" : "at exit: no context is left"); });  // later than what is made below
    static const Context context(options_from_environment());
    expect_sum();
    std::exit(0);  // the context ends among the statics
  }
  if (how == "static-group") {
    initialize(options_from_environment());
    static const ProcessGroup group = world();
    static Work work = barrier_async();
    work.wait();
    finalize();
    std::exit(0);
  }
  if (how == "inside") {  // a Context on the stack is not left
    const Context context(options_from_environment());
    expect_sum();
    std::exit(0);
  }
  return 91;
}

/// finalize EARLY: that rank finalizes at once, the others when the test says so.
int finalize_apart(int early) {
  block_go();
  initialize(options_from_environment());
  expect_sum();
  const bool is_early = rank() == early;
  say_ready();
  if (!is_early) wait_for_go();
  finalize();
  say("finalized");
  return 0;
}

/// init: what initialize says; then, if the first failed, again as it should be.
int init(const std::string& then) {
  bool failed = false;
  try {
    initialize(options_from_environment());
    say(fmt::format("rank {} of {} on {}", rank(), world_size(), world().backend()));
  } catch (...) {
    failed = true;
    say("failed: " + describe_current_exception());
    say(fmt::format("initialized {}", is_initialized()));
  }
  if (then == "again" && failed) {
    InitOptions right = options_from_environment();
    right.backend = "auto";
    right.rank.reset();
    right.world_size.reset();
    right.timeout = InitOptions{}.timeout;
    initialize(right);
    say(fmt::format("now rank {} of {} on {}", rank(), world_size(), world().backend()));
    failed = false;
  }
  if (failed) return 1;
  say_ready();
  expect_sum();
  if (then == "rest") rest();
  finalize();
  return 0;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Waits in a barrier, and in a Work, for a rank that comes a second late; how busy it was meanwhile.
int idle_cost() {
  block_go();
  initialize(options_from_environment());
  say_ready();
  for (const bool async : {false, true}) {
    barrier();
    if (rank() == 1) {
      say("late");
      wait_for_go();
    }
    const auto begin = std::chrono::steady_clock::now();
    const double before = cpu_seconds();
    if (async) {
      barrier_async().wait();
    } else {
      barrier();
    }
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (rank() == 0) say(fmt::format("busy {:.0f} % of {:.0f} ms", 100 * (cpu_seconds() - before) / wall, 1000 * wall));
  }
  finalize();
  return 0;
}

/// A Work, and a group, that outlive finalize.
int work_after_finalize() {
  initialize(options_from_environment());
  std::vector<int> x(3);
  Work never = irecv(x, (rank() + 1) % world_size());
  const ProcessGroup group = world();
  barrier();
  finalize();
  say(fmt::format("initialized {}", is_initialized()));
  attempt("wait", [&] { never.wait(); });
  say(fmt::format("mappings {}", shared_mappings().of_groups));
  return 0;
}

}  // namespace

std::optional<int> run_lifetime_mode(const std::string& mode, const std::string& first, const std::string& second) {
  static_cast<void>(second);
  const std::map<std::string, std::function<int()>> modes{
      {"before-initialize", before_initialize},
      {"alone", alone},
      {"twice", twice},
      {"cycles", [&] { return cycles(std::stoi(first)); }},
      {"fork", catching_what_a_child_throws},
      {"at-exit", [&] { return at_exit(first); }},
      {"finalize-apart", [&] { return finalize_apart(std::stoi(first)); }},
      {"init", [&] { return init(first); }},
      {"idle-cost", idle_cost},
      {"work-after-finalize", work_after_finalize},
  };
  const auto found = modes.find(mode);
  return found == modes.end() ? std::nullopt : std::optional<int>(found->second());
}

}  // namespace unisono::testing

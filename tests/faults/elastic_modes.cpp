// A mode of the program that the fault tests start as ranks, for elastic jobs:
//
//   elastic STEPS SIZE MOMENT VICTIMS STEP
//
// The rank trains until STEPS steps are done and the group has SIZE members again. The ranks of the start in VICTIMS ("1", "0,2", "-" for none) end
// themselves at the MOMENT, in step STEP. A job that cannot come to its end says so at TEST_TRAIN_UNTIL, in milliseconds of the steady clock. What
// each rank brings to a sum depends on its rank, and the sum does not depend on how many ranks there are, so that the result of every job is known,
// element by element.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "context/state.h"
#include "fault_rank.h"
#include "rendezvous/growth.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/reach.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

constexpr std::size_t length = 1009;                 // a prime
constexpr std::size_t large = std::size_t{8} << 20;  // elements of a call that takes a while
constexpr const char* last_step_key = "test/last-step";

struct Plan {
  std::int64_t steps = 0;
  int size = 0;
  std::string moment;
  bool is_victim = false;
  std::int64_t step = 0;
};

const base::Environment& environment() { return base::Environment::process(); }
int place() { return environment().get_int("RANK").value_or(0); }
int newcomer() { return environment().get_int("UNISONO_NEWCOMER").value_or(0); }

[[noreturn]] void die() {
  ::raise(SIGKILL);
  rest();
  std::abort();
}

/// `part`: of the store where there are several hosts.
std::shared_ptr<Store> store_of_job(const std::string& part = {}) {
  std::shared_ptr<Store> store = rendezvous::launcher_store(environment(), base::Deadline(std::chrono::seconds(60)));
  if (const auto job = rendezvous::store_of_launchers(*store, base::Deadline(std::chrono::seconds(30)))) {  // that of several hosts
    store = std::make_shared<PrefixStore>(job->prefix + part, job->client);
  }
  return store;
}

/// Ends this process when the key is there: in the midst of what its other thread is doing.
void die_at(const std::string& key, const std::string& part = {}) {
  std::thread([key, part] {
    static_cast<void>(store_of_job(part)->get(key, std::chrono::hours(1)));
    die();
  }).detach();
}

/// The training of a job: the weights are the sum of all steps, whoever has taken part in them.
class Training {
 public:
  Training() : weights_(length, 0.0) { state_.buffer("weights", weights_).object("sizes", sizes_).object("since", since_); }

  ElasticState& state() { return state_; }
  const std::vector<int>& sizes() const { return sizes_; }
  /// The job is done when all steps are, ten of them in a group that is complete again.
  bool is_done(std::int64_t steps, int size) const {
    constexpr int enough = 10;
    return state_.step >= steps && sizes_.back() >= size && since_ >= enough;
  }

  /// With `in_part` the step calls in a group of its own alone, as a model has one.
  void step(const ProcessGroup& members, bool in_part = false) {
    if (in_part && (!part_ || whole_ != members)) {
      part_ = split_group(members, 0, members.rank());
      whole_ = members;
    }
    const ProcessGroup& group = in_part ? *part_ : members;
    const int n = group.size();
    if (is_late()) wrong(fmt::format("no end after {} steps, in a group of {}; there were groups of {}", state_.step, n, list(sizes_)));
    std::vector<double> gradient(length);
    const auto share = static_cast<double>(group.rank() + 1) / (0.5 * n * (n + 1));  // of all ranks together: 1
    for (std::size_t i = 0; i < length; ++i) gradient[i] = 60 * share * static_cast<double>((i + 1) * static_cast<std::size_t>(state_.step + 1));
    all_reduce(gradient, ReduceOp::sum, group);
    const std::vector<int> ranks = all_gather(100 * n + group.rank(), group);
    for (int r = 0; r < n; ++r) {
      if (ranks[static_cast<std::size_t>(r)] != 100 * n + r) wrong(fmt::format("all_gather of {} ranks is {}", n, list(ranks)));
    }
    for (std::size_t i = 0; i < length; ++i) weights_[i] += std::round(gradient[i]);
    if (sizes_.empty() || sizes_.back() != n) {
      sizes_.push_back(n);
      since_ = 0;
    }
    ++since_;
    ++state_.step;
  }

  /// The test waits for its end no longer: what ends now is replaced by processes that end as well, until nobody is left.
  static bool is_late() {
    static const auto until = environment().get("TEST_TRAIN_UNTIL");
    return until && std::chrono::steady_clock::now().time_since_epoch() > std::chrono::milliseconds(std::stoll(*until));
  }

  void check() const {
    const auto steps = static_cast<double>(state_.step);
    for (std::size_t i = 0; i < length; ++i) {
      const double expected = 60 * static_cast<double>(i + 1) * steps * (steps + 1) / 2;
      if (weights_[i] != expected) wrong(fmt::format("weight {} is {} after {} steps, not {}", i, weights_[i], steps, expected));
    }
  }

 private:
  [[noreturn]] static void wrong(const std::string& what) {
    say("WRONG: " + what);
    ::_exit(91);
  }

  ElasticState state_;
  std::optional<ProcessGroup> part_, whole_;
  std::vector<double> weights_;
  std::vector<int> sizes_;
  int since_ = 0;  // the steps in a group of the last size
};

/// Nobody waits for a rank that ends between two calls: the others are in no call, and hear of it in their next one.
void let_all_come_to_rest(const ProcessGroup& group) {
  barrier(group);
  barrier(group);
}

/// Ends this process where it is a victim whose moment has come.
void meet_fate(const Plan& plan, const ElasticState& state, const ProcessGroup& group) {
  if (plan.moment == "large" && state.step == plan.step && group.size() == world_size()) {
    // All ranks, also a newcomer that is taken in before this step is done, are in a call that takes a while when the victims end.
    std::vector<float> much(large, static_cast<float>(group.rank()));
    auto work = all_reduce_async(much, ReduceOp::sum, group);
    if (plan.is_victim) die();
    work.wait();
  }
  if (plan.moment == "idle" && state.step == plan.step && group.size() == 4) {
    let_all_come_to_rest(group);
    if (plan.is_victim) die();
    // The launcher sees the end of the victim: it has come when this is over.
    static_cast<void>(context::current().launcher.store()->get("unisono/exit/first", std::chrono::seconds(30)));
  }
  if (!plan.is_victim || state.step != plan.step) return;
  for (const char* moment : {"small", "newcomer", "refuse", "together", "part", "unstarted", "hang"}) {
    if (plan.moment == moment) die();
  }
  if (plan.moment == "exit") std::exit(7);
  if (plan.moment == "leave") std::exit(0);
  if (plan.moment == "stop" || plan.moment == "stall") {
    say("stopped");
    ::raise(SIGSTOP);
  }
}

void report(const Training& training, const ProcessGroup& group) {
  training.check();
  const std::vector<int> places = all_gather(place(), group);
  say(fmt::format("done as rank {} of {}, places {}, sizes {}", group.rank(), group.size(), list(places), list(training.sizes())));
  if (world_size() == group.size() && rank() != group.rank()) say("WRONG: rank() is not that of the world");
}

/// Waits in all ranks until so many processes have asked to be taken in.
void wait_for_newcomers(int number, const ProcessGroup& group) {
  for (bool waits = true; waits;) {
    int asked = 0;
    if (group.rank() == 0) {
      Store& store = *context::current().job.facts.growth.store;  // a process counts as soon as its ticket has its name
      while (asked < number && store.try_get(fmt::format("unisono/grow/ticket/{}", asked))) ++asked;
    }
    waits = broadcast(asked, 0, group) < number;
  }
}

/// In the mode "place" the job is done once the process in the place STEP is a member as well.
bool has_place(const Plan& plan, const ProcessGroup& group) {
  if (plan.moment != "place") return true;
  const std::vector<int> places = all_gather(place(), group);
  return std::ranges::find(places, static_cast<int>(plan.step)) != places.end();
}

/// The fates of processes before they initialize.
void meet_fate_at_start(const Plan& plan) {
  if (plan.moment == "shrink" && plan.is_victim) {
    die_at(fmt::format("unisono/world/1//shrink/0.1.2.3/world#0//here/{}", place()), "/unisono/rendezvous//1/job");
  }
  if (plan.moment == "member" && plan.is_victim) die_at("unisono/grow/2/members");
  if (plan.moment == "newcomer" && newcomer() == 1 && place() == 1) die_at("unisono/grow/call/0/0");
  if (plan.moment == "meeting" && plan.is_victim && environment().get_int("UNISONO_ATTEMPT") == 0) die();
  if (plan.moment == "hang" && newcomer() == 1 && place() == 1) {  // it asks to be taken in, and does not come when it is called
    rendezvous::GrowthKeys(*store_of_job()).ask("1.1");
    ::raise(SIGSTOP);
  }
  if (plan.moment == "refuse" && newcomer() > 0) {  // it comes when the others are in their last step
    static_cast<void>(store_of_job()->get(last_step_key, std::chrono::seconds(60)));
  }
  if (plan.moment == "late" && newcomer() == 1 && place() == plan.step) die();
  if (plan.moment == "late" && newcomer() == 0) {  // those of the start meet once the launcher has replaced it
    static_cast<void>(store_of_job()->get("unisono/grow/ticket/1", std::chrono::seconds(60)));
  }
}

int train(const Plan& plan) {
  meet_fate_at_start(plan);
  if (plan.moment == "absent" && plan.is_victim) rest();
  const Context context(options_from_environment());
  Training training;
  const ProcessGroup last = run_elastic(training.state(), [&](const ProcessGroup& group) {
    if (has_place(plan, group) && training.is_done(plan.steps, plan.size)) return false;
    meet_fate(plan, training.state(), group);
    if (plan.moment == "place" && training.state().step == 1) say("under way");
    if (plan.moment == "unstarted" && training.state().step == plan.step - 1 && group.rank() == 0) {
      std::filesystem::remove(*environment().get("TEST_PROGRAM"));  // no process is started any more
    }
    // In these modes place 3 is the first to be lost, and the victims are lost while the others make up for it.
    if (plan.moment == "test" && training.state().step == 0) say("under way");
    if (plan.moment == "test" && group.size() == 3 && (training.sizes().empty() || training.sizes().back() == 4)) say("a group of 3");
    if (plan.moment == "once" && plan.is_victim && environment().get_int("UNISONO_ATTEMPT") == 0 && training.state().step == plan.step) die();
    if (plan.moment == "shrunk" && plan.is_victim && training.state().step == plan.step + 1) std::exit(0);
    const bool loses_another = plan.moment == "shrink" || plan.moment == "member" || plan.moment == "shrunk";
    if (loses_another && place() == 3 && newcomer() == 0 && training.state().step == plan.step) die();
    if (plan.moment == "together" && training.state().step == plan.step + 1 && group.size() < plan.size) wait_for_newcomers(2, group);
    if (plan.moment == "refuse" && training.state().step == plan.steps - 1) {
      if (group.rank() == 0) context::current().job.facts.growth.store->set(last_step_key, "1");
      wait_for_newcomers(1, group);
      training.step(group);
      return false;
    }
    training.step(group, plan.moment == "part");
    return true;
  });
  report(training, last);
  return 0;
}

/// A rank that the others have left out: it wakes, and nothing of the job lets it in.
int train_and_be_left_out(const Plan& plan) {
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  if (plan.is_victim) ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const Context context(options_from_environment());
  Training training;
  ProcessGroup before = world();
  try {
    run_elastic(training.state(), [&](const ProcessGroup& group) {
      if (training.is_done(plan.steps, plan.size)) return false;
      meet_fate(plan, training.state(), group);
      // Another one is lost, so that the others form a generation while the first still lives.
      if (place() == 3 && newcomer() == 0 && training.state().step == plan.step + 20) die();
      training.step(group);
      return true;
    });
  } catch (const Timeout&) {
    say("left out: " + describe_current_exception());
  }
  if (!plan.is_victim) {
    report(training, world());
    return 0;
  }
  try {
    static_cast<void>(grow_group(before));
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("grow: " + describe_current_exception());
  }
  // It takes the seat of a rank in the generation that the others have formed, or are about to form, without it.
  const auto& facts = context::current().job.facts;
  rendezvous::GrowthKeys keys(*facts.growth.store);
  static_cast<void>(facts.growth.store->get("unisono/grow/2/members", std::chrono::seconds(30)));
  const auto generation = keys.read(2);
  say(fmt::format("generation 2: {}", fmt::join(generation.names, " ")));
  static_cast<void>(keys.await_decision(generation, std::chrono::seconds(30)));
  try {
    static_cast<void>(rendezvous::meet_generation(
        facts, facts.growth.store, generation, 1, base::Deadline(std::chrono::seconds(5)), [] {}, environment()));
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("seat: " + describe_current_exception());
  }
  return 5;
}

}  // namespace

std::optional<int> run_elastic_mode(const std::vector<std::string>& words) {
  if (words.empty() || words[0] != "elastic") return std::nullopt;
  if (words.size() < 6) return 90;
  Plan plan{.steps = std::stol(words[1]), .size = std::stoi(words[2]), .moment = words[3]};
  plan.is_victim = newcomer() == 0 && contains(words[4], place());
  plan.step = std::stol(words[5]);
  say_ready();
  if (Training::is_late()) {
    say("WRONG: started after the test's end");
    return 91;
  }
  try {
    return plan.moment == "stop" ? train_and_be_left_out(plan) : train(plan);
  } catch (const Error&) {
    say("error " + describe_current_exception());
    return 3;
  }
}

}  // namespace unisono::testing

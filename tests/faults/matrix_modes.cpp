// The modes of fault_rank that rows of the matrix need: a death at one exact place, interruptions without end, groups in crossed order, and a store
// that goes away.

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "fault_rank.h"
#include "base/environment.h"
#include "engines/shm/segment.h"
#include "store_trap.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using engines::shm::Segment;

void say_here() { say(fmt::format("here {} {}", ::getpid(), base::Environment::process().get("UNISONO_JOB_ID").value_or("-"))); }

/// So many checked sums of so many elements, and an orderly end.
int rounds(int times, std::size_t elements) {
  say_here();
  auto since = Clock::now();
  try {
    initialize(options_from_environment());
    say_ready();
    std::vector<float> x(elements);
    for (int k = 0; k < times; ++k) {
      since = Clock::now();
      check_round(x, k);
      if (k == 0) say("under way");
    }
    finalize();
  } catch (const Error&) {
    return report_failure(since);
  }
  say("all right");
  return 0;
}

/// Some call of the system is interrupted all the time: a signal comes every 200 µs, and its handler restarts nothing.
int storm(int times, std::size_t elements) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval period{{0, 200}, {0, 200}};
  ::setitimer(ITIMER_REAL, &period, nullptr);
  return rounds(times, elements);
}

constexpr std::size_t in_several_steps = 400'000;

/// Waits for the rank that dies, in a call that needs it.
void wait_for(int victim) {
  std::vector<float> x(3);
  recv(x, victim);
}

Segment segment_here() {
  const Segment::Shape shape{.ranks = world_size()};
  const SharedRange range = find_segment(Segment::size_for(shape));
  if (range.begin == nullptr) throw std::logic_error("there is no memory shared with the other ranks");
  return Segment(shape, range.begin, nullptr);
}

/// Before the flag of an odd step, with what it is about in the slot; or in the middle of what goes into the slot.
void arm_trap(const std::string& where) {
  const Segment segment = segment_here();
  if (where == "payload") {
    die_at_write(segment.inbox(rank(), 1) + 16384, 4096, 1);
  } else if (where == "finalize") {
    die_at_write(reinterpret_cast<const std::byte*>(&segment.member(rank()).presence), 4, 1);
  } else {
    die_at_write(reinterpret_cast<const std::byte*>(&segment.line(rank(), 1).step), 4, 3);
  }
}

/// die WHERE VICTIM: the victim is killed by one of its own writes, while the others are in the same calls.
int die_at(const std::string& where, int victim) {
  initialize(options_from_environment());
  say_ready();
  auto since = Clock::now();
  std::vector<float> x(in_several_steps);
  try {
    check_round(x, 0);
    say("under way");
    if (rank() == victim) arm_trap(where);
    if (where == "finalize") {
      if (rank() == victim) finalize();
      wait_for(victim);
    }
    for (int k = 1;; ++k) {
      since = Clock::now();
      if (where == "async") {
        std::vector<float> y(in_several_steps, 1.0F);
        Work first = all_reduce_async(y);
        first.wait();
      } else {
        check_round(x, k);
      }
    }
  } catch (const Error&) {
    return report_failure(since);
  }
}

/// die-in-finalize VICTIM: it is killed by the call of the system that FAILING_CALL names, counted from the beginning of its finalize.
int die_in_finalize(int victim) {
  initialize(options_from_environment());
  say_ready();
  const auto since = Clock::now();
  try {
    barrier();
    say("under way");
    if (rank() == victim) {
      if (void* const begin = ::dlsym(RTLD_DEFAULT, "failing_calls_begin")) reinterpret_cast<void (*)()>(begin)();
      finalize();
      say("FINALIZED");
      return 0;
    }
    wait_for(victim);
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    return report_failure(since);
  }
  return 92;
}

/// join: initialize alone, and what it says.
int join_only() {
  say_here();
  try {
    initialize(options_from_environment());
  } catch (const Error&) {
    say("error " + describe_current_exception());
    return 3;
  }
  say_ready();
  const auto since = Clock::now();
  try {
    static_cast<void>(all_reduce(1));
    finalize();
  } catch (const Error&) {
    return report_failure(since);
  }
  say("all right");
  return 0;
}

/// late MOMENT: rank 1 is in its own code until the test lets it go, and then calls like the others.
int late(std::size_t elements) {
  block_go();
  const Context context(options_from_environment());
  say_ready();
  std::vector<float> x(elements);
  check_round(x, 0);
  say("under way");
  if (rank() == 1) wait_for_go();
  check_round(x, 1);
  say("all right");
  return 0;
}

/// crossed ELEMENTS: two groups of all ranks, which odd ranks call in the opposite order. Both calls have two seconds.
int crossed(std::size_t elements) {
  const Context context(options_from_environment());
  std::vector<int> all;
  for (int r = 0; r < world_size(); ++r) all.push_back(r);
  const auto first = new_group(all), second = new_group(all);
  say_ready();
  std::vector<float> x(elements, 1.0F);
  const auto since = Clock::now();
  try {
    for (const bool of_first : {rank() % 2 == 0, rank() % 2 != 0}) {
      all_reduce(x, ReduceOp::sum, of_first ? *first : *second, {.timeout = 2s});
    }
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
    say(fmt::format("took {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count()));
    barrier();  // the world is sound, and nobody leaves it before all have seen their own error
    return 3;
  }
  return 92;
}

/// differ: rank 1 waits for a message of rank 0, and the others are in a collective. All calls have two seconds.
int differ() {
  const Context context(options_from_environment());
  say_ready();
  std::vector<float> x(3, 1.0F);
  try {
    if (rank() == 1) recv(x, 0, world(), {.timeout = 2s});
    else all_reduce(x, ReduceOp::sum, world(), {.timeout = 2s});
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
    return 3;
  }
  return 92;
}

/// brief WHERE: large sums, each of which may take two seconds, until one fails. Its error is caught outside of the context, or inside, which then
/// ends. The time is that from the call until the context is gone.
int brief(const std::string& where) {
  std::vector<float> x(std::size_t{1} << 20, 1.0F);
  auto since = Clock::now();
  try {
    const Context context(options_from_environment());
    say_ready();
    try {
      for (int k = 0;; ++k) {
        since = Clock::now();
        all_reduce(x, ReduceOp::max, world(), {.timeout = 2s});
        if (k == 5) say("under way");
      }
    } catch (const Error&) {
      say("error " + describe_current_exception());
      if (where == "outside") throw;
    }
  } catch (const Error&) {
    say("left the context");
  }
  say(fmt::format("took {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count()));
  return 3;
}

/// serve-store: a store without a job.
int serve_store() {
  const TcpStore store("127.0.0.1", 0, {.is_server = true, .token = ""});
  say(fmt::format("port {}", store.port()));
  rest();
}

/// without-store [SECONDS]: the store of the job ends, or stops, between two calls; a group, which may take so long, needs it, and calls do not.
int without_store(const std::string& seconds) {
  block_go();
  initialize(options_from_environment());
  say_ready();
  std::vector<float> x(in_several_steps);
  check_round(x, 0);
  say("under way");
  wait_for_go();
  for (int k = 1; k < 6; ++k) check_round(x, k);
  say("rounds right");
  try {
    std::vector<int> all;
    for (int r = world_size() - 1; r >= 0; --r) all.push_back(r);
    static_cast<void>(new_group(all, seconds.empty() ? GroupOptions{} : GroupOptions{.timeout = std::chrono::seconds(std::stoi(seconds))}));
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
    wait_for_go();  // its end is an error of the others as well
    return 3;
  }
  return 92;
}

}  // namespace

std::optional<int> run_matrix_mode(const std::string& mode, const std::string& first, const std::string& second) {
  const std::map<std::string, std::function<int()>> modes{
      {"rounds", [&] { return rounds(std::stoi(first), std::stoul(second)); }},
      {"storm", [&] { return storm(std::stoi(first), std::stoul(second)); }},
      {"die", [&] { return die_at(first, std::stoi(second)); }},
      {"die-in-finalize", [&] { return die_in_finalize(std::stoi(first)); }},
      {"join-only", join_only},
      {"late", [&] { return late(std::stoul(first)); }},
      {"crossed", [&] { return crossed(std::stoul(first)); }},
      {"differ", differ},
      {"brief", [&] { return brief(first); }},
      {"serve-store", serve_store},
      {"without-store", [&] { return without_store(first); }},
  };
  const auto found = modes.find(mode);
  return found == modes.end() ? std::nullopt : std::optional<int>(found->second());
}

}  // namespace unisono::testing

// The program that the fault tests start as ranks; its first argument says how it behaves.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "fault_rank.h"
#include "unisono/unisono.h"

namespace unisono::testing {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// So many elements that a call takes some 100 ms.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t large = std::size_t{1} << 20;
#else
constexpr std::size_t large = std::size_t{16} << 20;
#endif

/// Sums until something fails.
[[noreturn]] void sum_for_ever(std::size_t elements, int announced, Clock::time_point& since) {
  std::vector<float> x(elements);
  for (int k = 0;; ++k) {
    since = Clock::now();
    check_round(x, k);
    if (k == announced) say("under way");
  }
}

/// The same, with large asynchronous calls.
[[noreturn]] void sum_asynchronously(Clock::time_point& since) {
  std::vector<float> x(std::size_t{16} << 20);
  for (int k = 0;; ++k) {
    std::ranges::fill(x, static_cast<float>(k % 100));
    since = Clock::now();
    Work sum = all_reduce_async(x);
    sum.wait();
    if (x.front() != static_cast<float>(k % 100 * world_size()) || x.back() != x.front())
      throw std::logic_error("wrong result of an asynchronous call");
    if (k == 0) say("under way");
  }
}

/// Finalizes while an operation is under way.
int finalize_meanwhile() {
  std::vector<float> x(1000, 1.0F);
  Work pending = all_reduce_async(x);
  finalize();  // waits for what is under way, and tells nobody off
  say("finalized");
  try {
    pending.wait();
    say("the operation SUCCEEDED");
  } catch (...) {
    say("error " + describe_current_exception());
  }
  return 3;
}

/// The call that needs the first victim, which does not answer; false where there is no such moment.
bool wait_for_victim(const std::string& moment, int first_victim, Clock::time_point& since) {
  if (moment == "recv") {
    std::vector<float> x(3);
    recv(x, first_victim);
  } else if (moment == "probe") {  // a rank that looks again and again learns of it as well
    while (!try_probe(first_victim)) {
    }
  } else if (moment == "send") {  // more than leaves without a receiver
    const std::vector<float> x(std::size_t{1} << 20, 1.0F);
    send(x, first_victim);
  } else if (moment == "small_sends") {  // until no more are kept for a receiver that does not come
    const std::vector<float> x(1000, 1.0F);
    for (;;) send(x, first_victim);
  } else if (moment == "async") {
    std::vector<float> x(1000, 1.0F);
    Work pending = all_reduce_async(x);
    say("pending");
    wait_for_go();
    pending.wait();
  } else if (moment == "idle") {
    wait_for_go();
    since = Clock::now();
    static_cast<void>(all_reduce(rank()));
  } else {
    return false;
  }
  return true;
}

/// work MOMENT VICTIMS: until something fails, then says what and ends with 3. Victims do not answer at the moments that wait for them.
int work(const std::string& moment, const std::string& victims) {
  block_go();
  initialize(options_from_environment());
  auto since = Clock::now();
  say_ready();
  try {
    if (moment == "small") sum_for_ever(1, 50, since);
    if (moment == "large") sum_for_ever(large, 0, since);
    if (moment == "flying") sum_asynchronously(since);
    barrier();
    say("under way");
    if (contains(victims, rank())) rest();
    if (moment == "finalize") return finalize_meanwhile();
    if (!wait_for_victim(moment, std::stoi(victims), since)) return 91;
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    return report_failure(since);
  }
  return 92;
}

/// end HOW: rank 1 ends in that way after a while, the others are in all_reduce.
int end(const std::string& how) {
  if (how == "handled") {  // a handler of the program's own, which is there before the library's
    std::set_terminate([] {
      say("own handler");
      std::_Exit(9);
    });
  }
  initialize(options_from_environment());
  say_ready();
  no_core();
  auto since = Clock::now();
  std::vector<float> x(100'000);
  try {
    for (int k = 0;; ++k) {
      if (k == 20 && rank() == 1) {
        if (how == "segv") ::raise(SIGSEGV);
        if (how == "abort") std::abort();
        if (how == "exit") std::exit(7);
        if (how == "exit-zero") std::exit(0);
        if (how == "return") return 0;
        if (how == "exec") ::execlp("sleep", "sleep", "1000", nullptr);
        if (how == "uncaught" || how == "handled") throw std::runtime_error("nobody catches this");
      }
      since = Clock::now();
      check_round(x, k);
    }
  } catch (const Error&) {
    return report_failure(since);
  }
}

/// scope HOW: an exception leaves rank 1's Context, and main goes on.
int scope(const std::string& how) {
  block_go();
  auto since = Clock::now();
  try {
    std::vector<float> x(100'000, 1.0F), y(1000, 1.0F);
    Context context(options_from_environment());
    say_ready();
    check_round(x, 0);
    say("under way");
    if (rank() == 1) {
      wait_for_go();
      if (how == "pending") {
        Work late = all_reduce_async(y);
        throw std::runtime_error("the user's own error");
      }
      throw std::runtime_error("the user's own error");
    }
    since = Clock::now();
    try {
      if (how == "pending") all_reduce(y);  // may still be done together
      check_round(x, 1);
      say("the operation SUCCEEDED");
    } catch (const Error&) {
      return report_failure(since);
    }
  } catch (const std::runtime_error& error) {
    say(fmt::format("caught {}, initialized: {}", error.what(), is_initialized()));
    return 5;
  }
  return 92;
}

/// missing RANKS OPERATION [SECONDS]: these never come; the others call with 2 s to wait, or so many.
int missing(const std::string& ranks, const std::string& operation, const std::string& seconds) {
  const std::chrono::seconds time(seconds.empty() ? 2 : std::stoi(seconds));
  block_go();
  initialize(options_from_environment());
  say_ready();
  barrier();
  auto since = Clock::now();
  try {
    if (contains(ranks, rank())) {
      wait_for_go();
      since = Clock::now();
      static_cast<void>(all_reduce(rank()));  // with 30 minutes
    } else if (operation == "monitored") {
      monitored_barrier(time);
    } else {
      static_cast<void>(all_reduce(rank(), ReduceOp::sum, world(), {.timeout = time}));
    }
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    return report_failure(since);
  }
  return 92;
}

}  // namespace
}  // namespace unisono::testing

int main(int argc, char** argv) {
  using namespace unisono::testing;
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto argument = [&](int i) { return argc > i ? std::string(argv[i]) : std::string(); };
  if (mode == "end") return end(argument(2));  // nothing may catch what it throws
  try {
    if (mode == "work") return work(argument(2), argument(3));
    if (mode == "scope") return scope(argument(2));
    if (mode == "missing") return missing(argument(2), argument(3), argument(4));
    if (const auto code = run_lifetime_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_store_mode(mode, argument(2))) return *code;
    if (const auto code = run_matrix_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_group_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_growth_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_elastic_mode({argv + 1, argv + argc})) return *code;
  } catch (...) {
    say("ended by " + describe_current_exception());
    return 4;
  }
  return 91;
}

// The program that the fault tests start as ranks; its first argument says how it behaves. Every line is one write, so that what a test waits for
// arrives whole.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "fault_rank.h"
#include "base/environment.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace unisono::testing {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

std::string list(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, ",")); }

std::string describe_current_exception() {
  const auto common = [](const Error& e) {
    return fmt::format(" culprit={} host={} rank={} op={} group={} seq={} what: {}", e.culprit().value_or(-1), e.host(), e.rank(), e.operation(),
                       e.group(), e.sequence(), e.what());
  };
  try {
    throw;
  } catch (const PeerFailed& e) {
    return fmt::format("PeerFailed cause={}", to_string(e.cause())) + common(e);
  } catch (const Timeout& e) {
    return fmt::format("Timeout missing={}", list(e.missing())) + common(e);
  } catch (const Mismatch& e) {
    return "Mismatch" + common(e);
  } catch (const InvalidArgument& e) {
    return "InvalidArgument" + common(e);
  } catch (const NotInitialized& e) {
    return "NotInitialized" + common(e);
  } catch (const AlreadyInitialized& e) {
    return "AlreadyInitialized" + common(e);
  } catch (const BackendUnavailable& e) {
    return "BackendUnavailable" + common(e);
  } catch (const ProtocolError& e) {
    return "ProtocolError" + common(e);
  } catch (const Error& e) {
    return fmt::format("Error ({})", typeid(e).name()) + common(e);
  } catch (const std::exception& e) {
    return fmt::format("exception {}: {}", typeid(e).name(), e.what());
  }
}

void say_ready() { say(fmt::format("ready {} {}", ::getpid(), base::Environment::process().get("UNISONO_JOB_ID").value_or("-"))); }

void block_go() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void wait_for_go() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  int signal = 0;
  ::sigwait(&set, &signal);
}

void rest() {
  while (true) ::pause();
}

void no_core() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

bool contains(const std::string& ranks, int rank) {  // "1,3"
  return fmt::format(",{},", ranks).find(fmt::format(",{},", rank)) != std::string::npos;
}

/// TEST_HOSTS=a,a,b: ranks of one host present themselves as being on several.
void present_hosts(const base::Environment& environment) {
  std::istringstream list(environment.get("TEST_HOSTS").value_or(""));
  std::vector<std::string> hosts;
  for (std::string host; std::getline(list, host, ',');) hosts.push_back(host);
  detail::set_presented_hosts(hosts);
}

InitOptions options_from_environment() {
  const auto& environment = base::Environment::process();
  present_hosts(environment);
  InitOptions options;
  if (const auto method = environment.get("TEST_INIT_METHOD")) options.init_method = *method;
  if (const auto backend = environment.get("TEST_INIT_BACKEND")) options.backend = *backend;
  options.rank = environment.get_int("TEST_INIT_RANK");
  options.world_size = environment.get_int("TEST_INIT_WORLD_SIZE");
  if (const auto ms = environment.get_int("TEST_INIT_TIMEOUT_MS")) options.timeout = std::chrono::milliseconds(*ms);
  if (const auto ms = environment.get_int("TEST_SILENCE_MS")) detail::set_silence_limit(std::chrono::milliseconds(*ms));
  return options;
}

namespace {

// So many elements that a call takes some 100 ms.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t large = std::size_t{1} << 20;
#else
constexpr std::size_t large = std::size_t{16} << 20;
#endif

/// element i of rank r in round k, small enough that sums of eight are exact
float element(std::size_t i, int r, int k) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(r) * 131 + static_cast<std::size_t>(k)) % 4093);
}

void check_round(std::vector<float>& x, int k) {
  const int n = world_size();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = element(i, rank(), k);
  all_reduce(x);
  const std::size_t stride = x.size() > 4096 ? 61 : 1;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    float expected = 0;
    for (int r = 0; r < n; ++r) expected += element(i, r, k);
    if (x[i] != expected) throw std::logic_error(fmt::format("wrong result in round {}: element {} is {}, not {}", k, i, x[i], expected));
  }
}

/// Later calls must throw the same at once, whatever they are.
int report_failure(Clock::time_point since) {
  const std::string first = describe_current_exception();
  say("error " + first);
  say(fmt::format("took {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count()));
  const auto kind = first.substr(0, first.find(" rank="));
  const auto repeat = [&](const char* name, auto&& call) {
    const auto begin = Clock::now();
    try {
      call();
      say(fmt::format("later {} succeeded", name));
    } catch (...) {
      const std::string again = describe_current_exception();
      const bool same = again.substr(0, again.find(" rank=")) == kind;
      const bool at_once = Clock::now() - begin < 5s;  // a call has 30 minutes
      say(fmt::format("later {} {}", name, same && at_once ? "same" : "DIFFERENT " + again));
    }
  };
  std::vector<int> x{1};
  repeat("barrier", [] { barrier(); });
  repeat("all_reduce", [&] { all_reduce(x); });
  repeat("async", [&] { all_reduce_async(x).wait(); });
  repeat("send", [&] { send(x, (rank() + 1) % world_size()); });
  repeat("recv", [&] { recv(x, any_source); });
  return 3;
}

/// Sums until something fails.
[[noreturn]] void sum_for_ever(std::size_t elements, int announced, Clock::time_point& since) {
  std::vector<float> x(elements);
  for (int k = 0;; ++k) {
    since = Clock::now();
    check_round(x, k);
    if (k == announced) say("under way");
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
        if (how == "uncaught") throw std::runtime_error("nobody catches this");
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
  auto since = Clock::now();
  try {
    std::vector<float> x(100'000, 1.0F), y(1000, 1.0F);
    Context context(options_from_environment());
    say_ready();
    check_round(x, 0);
    if (rank() == 1) {
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

/// missing RANKS: these never come; the others call with 2 s to wait.
int missing(const std::string& ranks, const std::string& operation) {
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
      monitored_barrier(2s);
    } else {
      static_cast<void>(all_reduce(rank(), ReduceOp::sum, world(), {.timeout = 2s}));
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
    if (mode == "missing") return missing(argument(2), argument(3));
    if (const auto code = run_lifetime_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_store_mode(mode, argument(2))) return *code;
    if (const auto code = run_group_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_growth_mode(mode, argument(2), argument(3))) return *code;
    if (const auto code = run_elastic_mode({argv + 1, argv + argc})) return *code;
  } catch (...) {
    say("ended by " + describe_current_exception());
    return 4;
  }
  return 91;
}

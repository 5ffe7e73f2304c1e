// The parts that all modes of fault_rank share: lines of output, errors as text, and rounds of checked sums. Every line is one write, so that what a
// test waits for arrives whole.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "fault_rank.h"
#include "base/environment.h"
#include "proxied_store.h"
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

namespace {

/// TEST_HOSTS=a,a,b: ranks of one host present themselves as being on several.
void present_hosts(const base::Environment& environment) {
  std::istringstream list(environment.get("TEST_HOSTS").value_or(""));
  std::vector<std::string> hosts;
  for (std::string host; std::getline(list, host, ',');) hosts.push_back(host);
  detail::set_presented_hosts(hosts);
}

}  // namespace

InitOptions options_from_environment() {
  const auto& environment = base::Environment::process();
  present_hosts(environment);
  InitOptions options;
  if (const auto method = environment.get("TEST_INIT_METHOD")) options.init_method = *method;
  if (const auto backend = environment.get("TEST_INIT_BACKEND")) options.backend = *backend;
  options.rank = environment.get_int("TEST_INIT_RANK");
  options.world_size = environment.get_int("TEST_INIT_WORLD_SIZE");
  if (const auto ms = environment.get_int("TEST_INIT_TIMEOUT_MS")) options.timeout = std::chrono::milliseconds(*ms);
  options.store = store_of_test();
  if (const auto ms = environment.get_int("TEST_SILENCE_MS")) detail::set_silence_limit(std::chrono::milliseconds(*ms));
  return options;
}

namespace {

/// element i of rank r in round k, small enough that sums of eight are exact
float element(std::size_t i, int r, int k) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(r) * 131 + static_cast<std::size_t>(k)) % 4093);
}

}  // namespace

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
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  say(fmt::format("descriptors {}", std::distance(begin(descriptors), end(descriptors))));
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

}  // namespace unisono::testing

// The mode of fault_rank whose store is killed.

#include <poll.h>

#include <csignal>
#include <stdexcept>
#include <vector>

#include "fault_rank.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

bool told_to_go() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  constexpr timespec at_once{};
  return ::sigtimedwait(&set, nullptr, &at_once) == SIGUSR1;
}

void check_sum(std::vector<float>& x) {
  const auto n = static_cast<float>(world_size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 251) + static_cast<float>(rank());
  all_reduce(x);
  for (std::size_t i = 0; i < x.size(); i += 61) {
    if (x[i] != n * static_cast<float>(i % 251) + n * (n - 1) / 2) throw std::logic_error("wrong sum");
  }
}

/// m3: rests until it is told to go on. m5: sums large vectors until all ranks have been told.
int store(const std::string& moment) {
  block_go();
  say("coming");
  initialize(options_from_environment());
  std::vector<float> small(3), large(std::size_t{4} << 20);
  check_sum(small);
  say("ready");
  if (moment == "m3") wait_for_go();
  for (int told = moment == "m5" ? 0 : world_size(), own = 0; told < world_size();) {
    check_sum(large);
    own = own != 0 || told_to_go() ? 1 : 0;
    told = all_reduce(own);
  }
  check_sum(large);
  barrier();
  say("the calls went on");
  try {
    new_group({1, 0});
    say("the store: answers");
  } catch (const Error&) {
    say("the store: " + describe_current_exception());
  }
  finalize();
  say("finalized well");
  return 0;
}

}  // namespace

std::optional<int> run_store_mode(const std::string& mode, const std::string& first) {
  return mode == "store" ? std::optional(store(first)) : std::nullopt;
}

}  // namespace unisono::testing

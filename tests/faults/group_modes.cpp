// The modes of fault_rank about forming groups.

#include <signal.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fault_rank.h"
#include "unisono/engine.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

constexpr int victim = 1, late = 2;

class Idle final : public Engine {
 public:
  std::string_view name() const noexcept override { return "idle"; }
  void abort(const Failure&) noexcept override {}
};

/// An engine in whose making the victim dies or fails, while the others wait in it for something that will not come: of the world where `of_world`,
/// else of every other group.
std::unique_ptr<Engine> make_idle(const EngineOptions& options, const std::string& how, bool of_world = false) {
  const int rank = options.global_ranks[static_cast<std::size_t>(options.rank)];
  if ((options.key == "world") != of_world) return std::make_unique<Idle>();
  if (rank != victim) {
    options.store->set("inside/" + std::to_string(options.rank), "1");
    static_cast<void>(options.store->get("never"));
  }
  std::vector<std::string> others;
  for (int r = 0; r < options.size(); ++r) {
    if (r != options.rank) others.push_back("inside/" + std::to_string(r));
  }
  options.store->wait(others);
  if (how == "dies-making") ::raise(SIGKILL);
  throw std::runtime_error("no room for the group");
}

void form(const std::string& kind) {
  if (kind == "local") static_cast<void>(local_group());
  else if (kind == "shrink") static_cast<void>(shrink_group(world()));
  else if (kind == "split") static_cast<void>(split_group(world(), 0));
  else static_cast<void>(new_group({3, 2, 1, 0}));
}

/// form HOW KIND: four ranks form a group, and rank 1 does not get through it.
int form_with_victim(const std::string& how, const std::string& kind) {
  block_go();
  register_engine("idle", [how](const EngineOptions& options) { return make_idle(options, how); });
  try {
    const Context context(options_from_environment());
    say_ready();
    barrier();
    say("under way");
    try {
      if (kind == "shrink") {  // rank 3 is killed by the test
        try {
          barrier();
          if (rank() == 3) rest();
          barrier();
        } catch (const PeerFailed&) {
          say("over");
        }
      }
      if (rank() == victim && (how == "away" || how == "stopped")) rest();
      if (rank() == victim && how == "throws") throw std::runtime_error("the user's own error");
      if (rank() == late && how == "inside") wait_for_go();
      form(kind);
      say("the operation SUCCEEDED");
    } catch (const Error&) {
      say("error " + describe_current_exception());
      return 3;
    }
  } catch (const std::runtime_error&) {
    return 5;
  }
  return 92;
}

/// join HOW: rank 1 does not get through the making of the world's engine.
int join_with_victim(const std::string& how) {
  register_engine("idle", [how](const EngineOptions& options) { return make_idle(options, how, true); });
  try {
    const Context context(options_from_environment());
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
    return 3;
  }
  return 92;
}

/// survive VICTIMS [part | throws]: sums until something fails, says what, and goes on with those that are left. With "part" the calls are those of
/// another group of the same ranks. With "throws" the first one that is left then gives up.
int survive(const std::string& victims, const std::string& how) {
  block_go();
  const Context context(options_from_environment());
  const ProcessGroup group = how == "part" ? *split_group(world(), 0, rank()) : world();
  say_ready();
  try {
    barrier(group);
    say("under way");
    if (contains(victims, rank())) rest();
    barrier(group);
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
  }
  const auto left = shrink_group(world());
  if (!left) return 92;
  int sum = 0;
  for (int round = 0; round < 20; ++round) sum = all_reduce(rank(), ReduceOp::sum, *left);
  const std::vector<int> all = all_gather(rank(), *left);
  say(fmt::format("left {}, sum {}", list(all), sum));
  if (how != "throws") return 0;
  if (left->rank() == 0) throw std::runtime_error("the user's own error");
  try {
    barrier(*left);
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("then " + describe_current_exception());
  }
  return 0;
}

}  // namespace

std::optional<int> run_group_mode(const std::string& mode, const std::string& first, const std::string& second) {
  if (mode == "form") return form_with_victim(first, second);
  if (mode == "survive") return survive(first, second);
  if (mode == "join") return join_with_victim(first);
  return std::nullopt;
}

}  // namespace unisono::testing

// The modes of fault_rank about forming groups.

#include <signal.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
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

/// unwinds HOW: an exception leaves rank 1 while the others wait in a group of their own with it. "group-first": the group is destroyed before the
/// Context; "context-first": after it; "static": it is not destroyed; "caught": only the group's scope is left.
int unwinds(const std::string& how) {
  static std::optional<ProcessGroup> kept;
  std::optional<ProcessGroup> outer;
  try {
    const Context context(options_from_environment());
    say_ready();
    std::optional<ProcessGroup> inner;
    const auto part = [&]() -> ProcessGroup& {
      auto& group = how == "static" ? kept : how == "context-first" ? outer : inner;
      group = new_group();
      barrier(*group);
      return *group;
    };
    if (how == "caught" && rank() == 1) {
      try {
        const ProcessGroup group = new_group();
        barrier(group);
        throw std::runtime_error("the user's own error");
      } catch (const std::runtime_error&) {
        barrier();
        return 0;
      }
    }
    const ProcessGroup& group = part();
    if (rank() == 1) throw std::runtime_error("the user's own error");
    try {
      barrier(group);
      say("the operation SUCCEEDED");
    } catch (const Error&) {
      say("error " + describe_current_exception());
    }
    if (how == "caught") barrier();
  } catch (const std::runtime_error&) {
    return 5;
  }
  return 0;
}

/// deadline HOW [MS]: a deadline of 300 ms passes, or of so many. "world", "part": a rank waits for a message of one that is in another call, in the
/// world or in a group of the ranks 3 and 2; "away": for one that finalizes when the test says so; "circle": each rank for the next one, which sends
/// as well; "circle RANK": so, and no other rank has a deadline; "hangs": all ranks for one that does not come; "astray": rank 1 for a message of
/// rank 0, which sends one with another tag and then finalizes; without MS it waits for as long as that takes.
int meet_deadline(const std::string& how, const std::string& ms) {
  using namespace std::chrono_literals;
  block_go();
  const Context context(options_from_environment());
  const auto part = how == "part" ? new_group({3, 2}) : std::optional(world());
  say_ready();
  if (!part) return 0;
  const int own = part->rank(), size = part->size();
  const CallOptions brief{.timeout = ms.empty() ? 300ms : std::chrono::milliseconds(std::stoi(ms))};
  const bool is_circle = how.starts_with("circle");
  int box = 0;
  barrier(*part);
  try {
    if (how == "hangs" && own == 1) rest();
    if (how == "away" && own == 1) {
      wait_for_go();
      return 0;
    }
    if (how == "astray" && own == 0) {
      send(std::vector<float>(1'000'000, 1.0F), 1, *part, {.tag = 7});
      return 0;
    }
    if (how == "hangs") barrier(*part, brief);
    else if (how == "astray") recv(box, 0, *part, {.timeout = ms.empty() ? std::nullopt : brief.timeout, .tag = 5});
    else if (is_circle)
      send(std::vector<float>(1'000'000, 1.0F), (own + 1) % size, *part,
           how == "circle" || how.ends_with(std::to_string(own)) ? brief : CallOptions{});
    else if (own == (how == "part" ? 1 : 0)) recv(box, size - 1 - own, *part, brief);
    else static_cast<void>(all_reduce(1, ReduceOp::sum, *part));
    say("the operation SUCCEEDED");
  } catch (const Error&) {
    say("error " + describe_current_exception());
    if (is_circle || how == "hangs") return 3;
  }
  return 0;
}

}  // namespace

std::optional<int> run_group_mode(const std::string& mode, const std::string& first, const std::string& second) {
  if (mode == "form") return form_with_victim(first, second);
  if (mode == "survive") return survive(first, second);
  if (mode == "join") return join_with_victim(first);
  if (mode == "unwinds") return unwinds(first);
  if (mode == "deadline") return meet_deadline(first, second);
  return std::nullopt;
}

}  // namespace unisono::testing

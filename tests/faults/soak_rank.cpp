// The program that scripts/test/soak-faults starts as ranks: it runs every operation again and again, with values that differ by rank, element and
// round, and checks every element of what it gets. It ends by what the script does to it, or after SOAK_SECONDS.
//   SIGRTMIN      ends with exit code 7           SIGRTMIN + 1   an exception leaves the context
//   SIGRTMIN + 2  comes three seconds late once
// Lines: "ready PID JOB", "rounds N" every second, "held descriptors N resident N" at the same time; at the end "done", or "over MILLISECONDS ERROR".

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/environment.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Data = std::vector<std::int64_t>;

volatile std::sig_atomic_t asked = 0;  // 1 exit, 2 exception, 3 late

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

/// Element i of what rank r gives in round k; less than 4093, so that all sums and products below are exact.
std::int64_t value(std::size_t i, int r, int k) {
  return static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(r) * 131 + static_cast<std::size_t>(k) * 17) % 4093);
}

Data values(std::size_t n, int r, int k) {
  Data x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = value(i, r, k);
  return x;
}

/// Compares each element with what `expected` says of its index.
template <class Expected>
void check(const char* operation, int k, const Data& x, Expected&& expected) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != expected(i))
      throw std::logic_error(fmt::format("WRONG {} in round {}: element {} of {} is {}, not {}", operation, k, i, x.size(), x[i], expected(i)));
  }
}

std::int64_t sum_up_to(std::size_t i, int ranks, int k) {
  std::int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(i, r, k);
  return sum;
}

/// The number of elements in rank r's block of the operations on blocks of different length; some are empty.
std::size_t length(std::size_t n, int r) { return n * static_cast<std::size_t>(r % 3) + static_cast<std::size_t>(r); }

class Rounds {
 public:
  explicit Rounds(const ProcessGroup& group) : group_(group), me_(group.rank()), ranks_(group.size()), count_(static_cast<std::size_t>(ranks_)) {}

  void run(std::size_t n, int k) {
    reductions(n, k);
    moves(n, k);
    blocks(n, k);
    messages(n, k);
  }

 private:
  void reductions(std::size_t n, int k) {
    const int root = k % ranks_;
    const auto sum = [&](std::size_t i) { return sum_up_to(i, ranks_, k); };
    Data x = values(n, me_, k);
    all_reduce(x, ReduceOp::sum, group_);
    check("all_reduce", k, x, sum);
    x = values(n, me_, k);
    all_reduce(x, ReduceOp::max, group_);
    check("all_reduce of max", k, x, [&](std::size_t i) {
      std::int64_t most = 0;
      for (int r = 0; r < ranks_; ++r) most = std::max(most, value(i, r, k));
      return most;
    });
    Data later = values(n, me_, k + 1);
    Work work = all_reduce_async(later, ReduceOp::sum, group_);
    x = values(n, me_, k);
    reduce(x, root, ReduceOp::sum, group_);
    if (me_ == root) check("reduce", k, x, sum);
    work.wait();
    check("all_reduce_async", k, later, [&](std::size_t i) { return sum_up_to(i, ranks_, k + 1); });
    Data part(n);
    reduce_scatter(values(n * count_, me_, k), part, ReduceOp::sum, group_);
    check("reduce_scatter", k, part, [&](std::size_t i) { return sum(static_cast<std::size_t>(me_) * n + i); });
    x = values(n, me_, k);
    scan(x, ReduceOp::sum, group_);
    check("scan", k, x, [&](std::size_t i) { return sum_up_to(i, me_ + 1, k); });
    x = values(n, me_, k);
    exscan(x, ReduceOp::sum, group_);
    if (me_ > 0) check("exscan", k, x, [&](std::size_t i) { return sum_up_to(i, me_, k); });
  }

  void moves(std::size_t n, int k) {
    const int root = (k + 1) % ranks_;
    const auto of_ranks = [&](std::size_t i) { return value(i % n, static_cast<int>(i / n), k); };
    const Data mine = values(n, me_, k);
    Data x = mine, all(n * count_), part(n);
    broadcast(x, root, group_);
    check("broadcast", k, x, [&](std::size_t i) { return value(i, root, k); });
    all_gather(mine, all, group_);
    check("all_gather", k, all, of_ranks);
    std::ranges::fill(all, -1);
    gather(mine, all, root, group_);
    if (me_ == root) check("gather", k, all, of_ranks);
    scatter(values(n * count_, root, k), part, root, group_);
    check("scatter", k, part, [&](std::size_t i) { return value(static_cast<std::size_t>(me_) * n + i, root, k); });
    all_to_all(values(n * count_, me_, k), all, group_);
    check("all_to_all", k, all, [&](std::size_t i) { return value(static_cast<std::size_t>(me_) * n + i % n, static_cast<int>(i / n), k); });
    barrier(group_);
  }

  void blocks(std::size_t n, int k) {
    const int root = k % ranks_;
    std::vector<std::size_t> counts;
    Data together;
    for (int r = 0; r < ranks_; ++r) {
      counts.push_back(length(n, r));
      const Data of_rank = values(counts.back(), r, k);
      together.insert(together.end(), of_rank.begin(), of_rank.end());
    }
    const auto expected = [&](std::size_t i) { return together[i]; };
    const std::size_t before = std::accumulate(counts.begin(), counts.begin() + me_, std::size_t{0}), own = counts[static_cast<std::size_t>(me_)];
    const Data mine = values(own, me_, k);
    Data all(together.size()), part(own);
    all_gather_v(mine, all, counts, group_);
    check("all_gather_v", k, all, expected);
    std::ranges::fill(all, -1);
    gather_v(mine, all, counts, root, group_);
    if (me_ == root) check("gather_v", k, all, expected);
    scatter_v(values(together.size(), root, k), counts, part, root, group_);
    check("scatter_v", k, part, [&](std::size_t i) { return value(before + i, root, k); });
    reduce_scatter_v(values(together.size(), me_, k), counts, part, ReduceOp::sum, group_);
    check("reduce_scatter_v", k, part, [&](std::size_t i) { return sum_up_to(before + i, ranks_, k); });
    const std::vector<std::size_t> as_many(count_, own);
    Data received(own * count_);
    all_to_all_v(values(together.size(), me_, k), counts, received, as_many, group_);
    check("all_to_all_v", k, received, [&](std::size_t i) { return value(before + i % own, static_cast<int>(i / own), k); });
  }

  void messages(std::size_t n, int k) {
    if (ranks_ == 1) return;
    const int next = (me_ + 1) % ranks_, last = (me_ + ranks_ - 1) % ranks_;
    Data x(n);
    send_recv(values(n, me_, k), next, x, last, group_);
    check("send_recv", k, x, [&](std::size_t i) { return value(i, last, k); });
    Work receiving = irecv(x, last, group_);
    send(values(n, me_, k + 1), next, group_);
    receiving.wait();
    check("irecv", k, x, [&](std::size_t i) { return value(i, last, k + 1); });
    std::string text = fmt::format("round {} of rank {}", k, me_);
    broadcast_object(text, k % ranks_, group_);
    if (text != fmt::format("round {} of rank {}", k, k % ranks_)) throw std::logic_error("WRONG broadcast_object: " + text);
  }

  const ProcessGroup& group_;
  int me_, ranks_;
  std::size_t count_;
};

std::string held() {
  std::size_t descriptors = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++descriptors;
  std::ifstream status("/proc/self/status");
  long resident = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> resident;
  }
  return fmt::format("held descriptors {} resident {}", descriptors, resident);
}

/// Does what the script has asked for by a signal.
void obey() {
  const int what = asked;
  if (what == 0) return;
  asked = 0;
  if (what == 1) std::_Exit(7);
  if (what == 2) throw std::runtime_error("the program's own error");
  for (const auto until = Clock::now() + std::chrono::seconds(3); Clock::now() < until;) {  // its own work
  }
}

void run(Clock::time_point& since) {
  // From one element to more than a ring, a slot and the boundary between eager messages and the others.
  constexpr std::size_t sizes[] = {1, 3, 17, 257, 1000, 5003, 20011, 70001};
  const auto seconds = base::Environment::process().get_int("SOAK_SECONDS").value_or(3600);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  auto told = Clock::now();
  Rounds of_world(world());
  for (int k = 0;; ++k) {
    since = Clock::now();
    obey();
    of_world.run(sizes[static_cast<std::size_t>(k) % std::size(sizes)], k);
    if (k % 16 == 0 && world_size() > 2) {
      const auto half = split_group(world(), rank() % 2, rank());
      Rounds(*half).run(100, k);
    }
    if (all_reduce(Clock::now() >= end ? 1 : 0, ReduceOp::max) == 1) break;
    if (Clock::now() - told < std::chrono::seconds(1)) continue;
    told = Clock::now();
    say(fmt::format("rounds {}", k + 1));
    say(held());
  }
}

int soak() {
  auto since = Clock::now();
  try {
    Context context;
    if (const auto ms = base::Environment::process().get_int("SOAK_SILENCE_MS")) detail::set_silence_limit(std::chrono::milliseconds(*ms));
    say(fmt::format("ready {} {}", ::getpid(), base::Environment::process().get("UNISONO_JOB_ID").value_or("-")));
    run(since);
  } catch (const Error& error) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count();
    say(fmt::format("over {} culprit {} {}", ms, error.culprit().value_or(-1), error.what()));
    return 3;
  } catch (const std::logic_error& error) {
    say(error.what());
    return 9;
  } catch (const std::exception& error) {
    say(fmt::format("left {}", error.what()));
    return 5;
  }
  say("done");
  return 0;
}

}  // namespace
}  // namespace unisono::testing

int main() {
  using unisono::testing::asked;
  std::signal(SIGRTMIN, [](int) { asked = 1; });
  std::signal(SIGRTMIN + 1, [](int) { asked = 2; });
  std::signal(SIGRTMIN + 2, [](int) { asked = 3; });
  return unisono::testing::soak();
}

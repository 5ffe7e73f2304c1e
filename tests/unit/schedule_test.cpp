// Schedules are data: every algorithm of the table, for every number of ranks, carried out on numbers by a few lines that know nothing of engines.

#include "schedule/algorithm.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

using Numbers = std::vector<std::uint64_t>;
constexpr std::uint64_t untouched = ~std::uint64_t{0};

/// The problem of one rank, with elements of uint64.
struct Case {
  Operation operation;
  int size;
  std::size_t count;

  std::uint64_t element(int rank, std::size_t i) const { return static_cast<std::uint64_t>(rank + 1) * 1000003 + i * 17; }
  Counts counts() const {
    std::vector<std::size_t> numbers;
    for (int r = 0; r < size; ++r) numbers.push_back((count + static_cast<std::size_t>(r) * 3) % 5);
    return Counts(numbers);
  }
  // The number of elements that rank a sends to rank b in an all_to_all_v.
  std::size_t sent(int a, int b) const { return (count + static_cast<std::size_t>(a) * 2 + static_cast<std::size_t>(b)) % 4; }
  int root() const { return has_root(operation) ? size - 1 : -1; }

  Problem problem(int rank) const {
    Problem p;
    p.operation = operation;
    p.dtype = DType::uint64;
    p.rank = rank;
    p.size = size;
    p.root = root();
    p.count = count;
    const auto n = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
    if (operation == Operation::all_to_all_v) {
      std::vector<std::size_t> out, in;
      for (int other = 0; other < size; ++other) {
        out.push_back(sent(rank, other));
        in.push_back(sent(other, rank));
      }
      p.counts = Counts(out);
      p.recv_counts = Counts(in);
      p.count = 0;
    } else if (has_counts(operation)) {
      p.counts = counts();
      p.count = p.counts.total();
    }
    const auto length = [&](Layout layout, const Counts& blocks) {
      if (layout == Layout::whole) return p.count;
      if (layout == Layout::block) return blocks.size() > 0 ? blocks[r] : count;
      return blocks.size() > 0 ? blocks.total() : n * count;
    };
    const OperationTraits& traits = traits_of(operation);
    const bool gives = traits.senders == Participants::all_ranks || p.is_root(), gets = traits.receivers == Participants::all_ranks || p.is_root();
    p.in = {Slice::Memory::input, 0, gives ? length(traits.in, p.counts) : 0};
    p.out = {Slice::Memory::output, 0, gets ? length(traits.out, operation == Operation::all_to_all_v ? p.recv_counts : p.counts) : 0};
    return p;
  }
  Numbers input(int rank) const {
    Numbers numbers(problem(rank).in.count);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = element(rank, i);
    return numbers;
  }
  std::uint64_t sum(int ranks, std::size_t i) const {
    std::uint64_t total = 0;
    for (int r = 0; r < ranks; ++r) total += element(r, i);
    return total;
  }
  /// The rank's output afterwards, by definition of the operation.
  Numbers expected(int rank) const {
    const Problem p = problem(rank);
    Numbers out(p.out.count, untouched);
    const auto fill = [&](std::size_t from, std::size_t n, auto&& value) {
      for (std::size_t i = 0; i < n; ++i) out[from + i] = value(i);
    };
    const auto r = static_cast<std::size_t>(rank);
    switch (operation) {
      case Operation::all_reduce:
      case Operation::reduce: fill(0, out.size(), [&](std::size_t i) { return sum(size, i); }); break;
      case Operation::scan: fill(0, out.size(), [&](std::size_t i) { return sum(rank + 1, i); }); break;
      case Operation::exscan:
        if (rank > 0) fill(0, out.size(), [&](std::size_t i) { return sum(rank, i); });
        break;
      case Operation::broadcast: fill(0, out.size(), [&](std::size_t i) { return element(root(), i); }); break;
      case Operation::reduce_scatter: fill(0, count, [&](std::size_t i) { return sum(size, r * count + i); }); break;
      case Operation::reduce_scatter_v: fill(0, out.size(), [&](std::size_t i) { return sum(size, counts().before(r) + i); }); break;
      case Operation::scatter: fill(0, count, [&](std::size_t i) { return element(root(), r * count + i); }); break;
      case Operation::scatter_v: fill(0, out.size(), [&](std::size_t i) { return element(root(), counts().before(r) + i); }); break;
      case Operation::all_to_all:
        for (int s = 0; s < size; ++s) fill(static_cast<std::size_t>(s) * count, count, [&](std::size_t i) { return element(s, r * count + i); });
        break;
      case Operation::all_to_all_v: {
        std::size_t at = 0;
        for (int s = 0; s < size; ++s) {
          std::size_t begin = 0;
          for (int before = 0; before < rank; ++before) begin += sent(s, before);
          fill(at, sent(s, rank), [&](std::size_t i) { return element(s, begin + i); });
          at += sent(s, rank);
        }
        break;
      }
      default: {  // the gathers
        if (out.empty()) break;
        std::size_t at = 0;
        for (int s = 0; s < size; ++s) {
          const std::size_t n = has_counts(operation) ? counts()[static_cast<std::size_t>(s)] : count;
          fill(at, n, [&](std::size_t i) { return element(s, i); });
          at += n;
        }
      }
    }
    return out;
  }
};

/// Carries out the schedules of all ranks at once. Messages between two ranks keep their order; a rank waits where nothing has come.
class Machine {
 public:
  explicit Machine(const Case& of, std::vector<Schedule> schedules) : schedules_(std::move(schedules)) {
    for (int r = 0; r < of.size; ++r) {
      Rank rank;
      rank.memory[0] = of.input(r);
      rank.memory[1].assign(of.problem(r).out.count, untouched);
      rank.memory[2].assign(schedules_[static_cast<std::size_t>(r)].scratch, untouched);
      ranks_.push_back(std::move(rank));
    }
  }

  /// False where no rank can go on and some are not at their end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    return std::ranges::all_of(
               ranks_, [&](const Rank& rank) { return rank.next == schedules_[static_cast<std::size_t>(&rank - ranks_.data())].steps.size(); }) &&
           std::ranges::all_of(messages_, [](const auto& channel) { return channel.second.empty(); });
  }
  const Numbers& output(int rank) const { return ranks_[static_cast<std::size_t>(rank)].memory[1]; }

 private:
  struct Rank {
    Numbers memory[3];  // by Slice::Memory
    std::size_t next = 0;
    bool has_sent = false;  // what the wave at `next` sends
  };

  // A whole wave, or nothing of it but its sends.
  bool advance(std::size_t r) {
    Rank& rank = ranks_[r];
    const auto& steps = schedules_[r].steps;
    if (rank.next == steps.size()) return false;
    std::size_t end = rank.next;
    while (end < steps.size() && steps[end].wave == steps[rank.next].wave) ++end;
    bool moved = false;
    if (!rank.has_sent) {
      for (std::size_t i = rank.next; i < end; ++i) {
        if (steps[i].kind == Step::Kind::send) messages_[{static_cast<int>(r), steps[i].peer}].push_back(read(rank, steps[i].in));
      }
      rank.has_sent = moved = true;
    }
    std::map<int, std::size_t> wanted;
    for (std::size_t i = rank.next; i < end; ++i) {
      if (steps[i].kind == Step::Kind::receive) ++wanted[steps[i].peer];
    }
    for (const auto& [peer, n] : wanted) {
      if (messages_[{peer, static_cast<int>(r)}].size() < n) return moved;
    }
    for (std::size_t i = rank.next; i < end; ++i) carry_out(rank, static_cast<int>(r), steps[i]);
    rank.next = end;
    rank.has_sent = false;
    return true;
  }
  void carry_out(Rank& rank, int r, const Step& step) {
    switch (step.kind) {
      case Step::Kind::receive: {
        auto& channel = messages_[{step.peer, r}];
        ASSERT_EQ(channel.front().size(), step.out.count) << "the two sides of a message differ in length";
        write(rank, step.out, channel.front());
        channel.pop_front();
        break;
      }
      case Step::Kind::copy: write(rank, step.out, read(rank, step.in)); break;
      case Step::Kind::reduce: {
        Numbers sum(step.out.count, 0);
        for (std::size_t b = 0; b < step.blocks; ++b) {
          const Numbers block = read(rank, {step.in.memory, step.in.begin + b * step.out.count, step.out.count});
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += block[i];
        }
        write(rank, step.out, sum);
        break;
      }
      case Step::Kind::send: break;
      default: FAIL() << "a step of an engine, where there is none";
    }
  }
  static Numbers read(const Rank& rank, const Slice& slice) {
    const Numbers& from = rank.memory[static_cast<int>(slice.memory)];
    EXPECT_LE(slice.begin + slice.count, from.size());
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(slice.begin);
    return {begin, begin + static_cast<std::ptrdiff_t>(slice.count)};
  }
  static void write(Rank& rank, const Slice& slice, const Numbers& numbers) {
    Numbers& to = rank.memory[static_cast<int>(slice.memory)];
    ASSERT_LE(slice.begin + numbers.size(), to.size());
    std::ranges::copy(numbers, to.begin() + static_cast<std::ptrdiff_t>(slice.begin));
  }

  std::vector<Schedule> schedules_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<Numbers>> messages_;
};

/// On connections between all ranks, without any collective of an engine's.
const Setting connections{.engine = Abilities(nullptr)};

void expect_right(const Case& one, const Algorithm& algorithm) {
  SCOPED_TRACE(std::string(to_string(one.operation)) + " by " + std::string(algorithm.name) + ", " + std::to_string(one.size) + " ranks, " +
               std::to_string(one.count) + " elements");
  std::vector<Schedule> schedules(static_cast<std::size_t>(one.size));
  for (int r = 0; r < one.size; ++r) {
    Builder builder(schedules[static_cast<std::size_t>(r)]);
    algorithm.build(one.problem(r), connections, builder);
  }
  Machine machine(one, std::move(schedules));
  ASSERT_TRUE(machine.run()) << "it stands still";
  for (int r = 0; r < one.size; ++r) ASSERT_EQ(machine.output(r), one.expected(r)) << "rank " << r;
}

TEST(Schedules, OfEveryAlgorithmOverConnectionsGiveWhatTheOperationIs) {
  std::map<Operation, int> tried;
  for (const Algorithm& algorithm : table()) {
    for (int size = 1; size <= 64; size = size < 9 ? size + 1 : size * 2 - 1) {
      for (const std::size_t count : {0U, 1U, 2U, 7U, 64U}) {
        const Case one{algorithm.operation, size, count};
        if (!algorithm.can(one.problem(0), connections)) continue;
        expect_right(one, algorithm);
        if (HasFatalFailure()) return;
        ++tried[algorithm.operation];
      }
    }
  }
  for (const OperationTraits& operation : operation_table) {
    const bool has_schedule = operation.operation != Operation::barrier && !is_message(operation.operation);
    EXPECT_EQ(tried.contains(operation.operation), has_schedule) << operation.name;
  }
}

// The schedule of a rank depends on nothing in which ranks differ: all of them take the same one.
TEST(Schedules, AreChosenAlikeOnAllRanks) {
  for (const std::size_t count : {1U, 1000U, 100000U}) {
    for (const Operation operation : {Operation::all_reduce, Operation::broadcast, Operation::reduce}) {
      const Case one{operation, 5, count};
      std::optional<std::string_view> first;
      for (int r = 0; r < one.size; ++r) {
        Schedule schedule;
        Builder builder(schedule);
        const std::string_view name = build(one.problem(r), connections, builder);
        EXPECT_EQ(first.value_or(name), name);
        first = name;
      }
    }
  }
}

TEST(Schedules, AreChosenBySizeAndRanks) {
  const auto chosen = [](Operation operation, int size, std::size_t count) {
    Schedule schedule;
    Builder builder(schedule);
    return build(Case{operation, size, count}.problem(0), connections, builder);
  };
  EXPECT_EQ(chosen(Operation::all_reduce, 4, 512), "everything");  // 4 KiB
  EXPECT_EQ(chosen(Operation::all_reduce, 4, 513), "shares");
  EXPECT_EQ(chosen(Operation::broadcast, 4, 4095), "exchange");
  EXPECT_EQ(chosen(Operation::broadcast, 4, 4096), "scatter_all_gather");  // 32 KiB
  EXPECT_EQ(chosen(Operation::broadcast, 2, 4096), "exchange");
  EXPECT_THROW(static_cast<void>(chosen(Operation::send, 2, 1)), Unsupported);
}

TEST(Schedules, AnOverrideNamesWhatThereIs) {
  EXPECT_NO_THROW(check_override(""));
  EXPECT_NO_THROW(check_override("all_reduce=shares,broadcast=exchange"));
  const auto refused = [](std::string_view text) {
    try {
      check_override(text);
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused("all_reduce"), "UNISONO_SCHEDULE: \"all_reduce\" is not OPERATION=ALGORITHM");
  EXPECT_EQ(refused("all_reduces=shares"), "UNISONO_SCHEDULE: \"all_reduces=shares\" is not OPERATION=ALGORITHM");
  EXPECT_EQ(refused("reduce=ring"), "UNISONO_SCHEDULE: reduce has no algorithm \"ring\"; it has engine, sum_and_divide, shares");
  EXPECT_EQ(refused("barrier=shares"), "UNISONO_SCHEDULE: barrier has no algorithm \"shares\"; it has none");
}

// Two levels, with the engines of the hosts and of the rails as whole collectives: their shares fit, and each element is in one of them.
TEST(Schedules, OnTwoLevelsShareOutEveryElementOnce) {
  const std::vector<int> hosts{0, 0, 1, 1, 1};
  for (const std::size_t count : {1000U, 1001U}) {
    std::vector<int> written(count, 0);
    for (int r = 0; r < 5; ++r) {
      const coordination::GroupTopology topology(r, hosts);
      Case one{Operation::all_reduce, 5, count};
      Schedule schedule;
      Builder builder(schedule);
      EXPECT_EQ(build(one.problem(r), {.engine = Abilities(nullptr), .topology = &topology}, builder), "two_levels");
      const Step& first = schedule.steps.front();
      EXPECT_EQ(first.level, Level::host);
      EXPECT_EQ(first.call.operation, Operation::reduce_scatter_v);
      EXPECT_EQ(first.call.counts.total(), count);
      EXPECT_EQ(schedule.steps.back().call.operation, Operation::all_gather_v);
      EXPECT_EQ(schedule.steps.back().in.count, first.out.count);
      if (hosts[static_cast<std::size_t>(r)] != 0) continue;
      for (std::size_t i = 0; i < first.out.count; ++i) ++written[first.out.begin + i];
    }
    EXPECT_EQ(std::accumulate(written.begin(), written.end(), 0), static_cast<int>(count));
    EXPECT_TRUE(std::ranges::all_of(written, [](int n) { return n == 1; }));
  }
}

}  // namespace
}  // namespace unisono::schedule

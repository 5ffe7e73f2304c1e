// Steps through shared memory: how much one carries, how its results are written, and what happens if the ranks differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/processors.h"
#include "base/deadline.h"
#include "base/switches.h"
#include "engines/shm/engine.h"
#include "engines/shm/result_writer.h"
#include "unisono/error.h"

using namespace unisono;
using engines::shm::ResultWriter;
using engines::shm::slot_bytes_for;
using engines::shm::streams_from;

namespace {

constexpr std::size_t kib = 1024;

std::size_t step_of(int ranks, bool is_crowded) { return engines::shm::step_bytes(slot_bytes_for(ranks), is_crowded); }

CollectiveCall call_of(Operation operation, std::vector<float>& in, std::vector<float>& out, int root = -1) {
  CollectiveCall call;
  call.operation = operation;
  call.in = TensorView(in.data(), DType::float32, in.size());
  call.out = TensorView(out.data(), DType::float32, out.size());
  call.count = in.size();
  call.root = root;
  return call;
}

}  // namespace

TEST(StepSize, AllSlotsTake16MiBWhereThatIsEnough) {
  EXPECT_EQ(slot_bytes_for(1), 1024 * kib);
  EXPECT_EQ(slot_bytes_for(4), 1024 * kib);
  EXPECT_EQ(slot_bytes_for(5), 512 * kib);
  EXPECT_EQ(slot_bytes_for(8), 512 * kib);
  EXPECT_EQ(slot_bytes_for(32), 128 * kib);
  EXPECT_EQ(slot_bytes_for(1024), 128 * kib);
}

TEST(StepSize, RanksThatShareProcessorsTakeLongSteps) {
  EXPECT_EQ(step_of(2, false), 256 * kib);
  EXPECT_EQ(step_of(2, true), 1024 * kib);
  EXPECT_EQ(step_of(8, true), 512 * kib);
  EXPECT_EQ(step_of(64, false), 128 * kib);
}

TEST(ResultWriter, ResultsAreStreamedFromASizeOn) {
  const std::size_t second = base::second_level_cache();
  EXPECT_EQ(streams_from(), std::clamp(base::third_level_cache() / 4, 16 * second, 32 * second));
}

TEST(ResultWriter, StreamsWhereTheOutputsOfAllRanksAreLarge) {
  std::vector<float> in(1000), out(1000);
  const auto streams = [&](Operation operation, std::vector<float>& to, int rank, int ranks, std::size_t from, int root = -1) {
    return ResultWriter(call_of(operation, in, to, root), rank, ranks, from).streams();
  };
  EXPECT_TRUE(streams(Operation::all_gather, out, 0, 2, 8000));
  EXPECT_FALSE(streams(Operation::all_gather, out, 0, 2, 8001));
  EXPECT_TRUE(streams(Operation::gather, out, 1, 2, 4000, 1));
  EXPECT_FALSE(streams(Operation::gather, out, 1, 2, 4001, 1)) << "one output";
  EXPECT_FALSE(streams(Operation::gather, out, 0, 2, 4000, 1)) << "none";
  EXPECT_TRUE(streams(Operation::all_reduce, out, 0, 2, 8000));
  EXPECT_FALSE(streams(Operation::all_reduce, in, 0, 2, 8000)) << "the result's place has been read";
  EXPECT_TRUE(streams(Operation::broadcast, in, 1, 2, 8000, 0));
}

TEST(ResultWriter, BothWaysWriteTheSame) {
  constexpr std::size_t n = 100'003;  // many chunks, and a part of one
  std::vector<float> first(n), second(n), cached(n + 3), streamed(n + 3);
  std::iota(first.begin(), first.end(), 0.25F);
  std::iota(second.begin(), second.end(), -7.0F);
  for (const std::size_t at : {0, 1, 3}) {  // elements from the beginning, so that lines begin elsewhere
    const CollectiveCall call = call_of(Operation::all_reduce, first, cached);
    const void* const inputs[] = {first.data(), second.data()};
    ResultWriter(call, 0, 2, n * 1000).combine(cached.data() + at, inputs, 2, n, call, 2);
    ResultWriter(call, 0, 2, 0).combine(streamed.data() + at, inputs, 2, n, call, 2);
    EXPECT_EQ(cached, streamed);
    EXPECT_EQ(streamed[at + n - 1], first[n - 1] + second[n - 1]);
    ResultWriter(call, 0, 2, 0).copy(streamed.data() + at, first.data(), n * sizeof(float));
    EXPECT_TRUE(std::equal(first.begin(), first.end(), streamed.begin() + static_cast<std::ptrdiff_t>(at)));
    cached = streamed;
  }
}

namespace {

using List = std::vector<float>;
using Lengths = std::vector<std::vector<std::size_t>>;  // of the blocks that each rank gives each other one

/// Three ranks in one thread, whose steps fill 4 KiB, and whose results are all written past the caches.
struct SmallSteps {
  static constexpr std::size_t ranks = 3;
  std::shared_ptr<engines::shm::Segment> segment = [] {
    const engines::shm::Segment::Shape shape{.ranks = ranks, .slot_bytes = 4 * kib, .ring_bytes = 4 * kib};
    auto memory = engines::shm::private_memory(engines::shm::Segment::size_for(shape));
    return std::make_shared<engines::shm::Segment>(shape, memory.get(), memory);
  }();
  std::array<engines::shm::Lockstep, ranks> lockstep{engines::shm::Lockstep(segment, 0, false, 0), engines::shm::Lockstep(segment, 1, false, 0),
                                                     engines::shm::Lockstep(segment, 2, false, 0)};

  void carry_out(const std::array<CollectiveCall, ranks>& calls) {
    std::array<std::unique_ptr<Task>, ranks> tasks;
    for (std::size_t r = 0; r < ranks; ++r) tasks[r] = engines::shm::make_collective(lockstep[r], calls[r]);
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (const auto& task : tasks) is_done = task->advance() && is_done;
      ASSERT_LT(lockstep[0].step(), 100'000U);
    }
  }
};

List slice(const List& of, std::size_t begin, std::size_t count) {
  return {of.begin() + static_cast<std::ptrdiff_t>(begin), of.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}
List& operator+=(List& list, const List& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

/// Carries an operation out in small steps, of which rank 1 is the root, and compares what every rank gets.
void expect_right(Operation operation, const Lengths& lengths) {
  constexpr std::size_t ranks = SmallSteps::ranks, root = 1;
  const OperationTraits& traits = traits_of(operation);
  const bool is_own = operation == Operation::all_to_all_v;  // each rank has counts of its own
  const auto& lengths_of_all = lengths[0];
  const std::size_t n = lengths_of_all[0];
  const auto before = [&](std::size_t from, std::size_t to) {
    return std::accumulate(lengths[from].begin(), lengths[from].begin() + static_cast<std::ptrdiff_t>(to), std::size_t{0});
  };
  std::array<List, ranks> in, out, expected;
  std::array<CollectiveCall, ranks> calls;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (takes_part(traits.senders, r == root))
      in[r].resize(traits.in == Layout::whole    ? n
                   : traits.in == Layout::block  ? lengths_of_all[r]
                   : traits.in == Layout::blocks ? before(r, ranks)
                                                 : 0);
    for (std::size_t i = 0; i < in[r].size(); ++i) in[r][i] = static_cast<float>(r * 100'000 + i);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    const bool receives = takes_part(traits.receivers, r == root);
    const std::size_t begin = before(0, r);
    if (!receives) continue;
    if (traits.reduces) {
      const std::size_t first = traits.out == Layout::block ? begin : 0, size = traits.out == Layout::block ? lengths_of_all[r] : n;
      expected[r].assign(size, 0.0F);
      const std::size_t end = operation == Operation::scan ? r + 1 : operation == Operation::exscan ? r : ranks;
      for (std::size_t from = 0; from < end; ++from)
        for (std::size_t i = 0; i < size; ++i) expected[r][i] += in[from][first + i];
    } else if (traits.in == Layout::whole) expected[r] = in[root];
    else if (traits.out == Layout::block) expected[r] = slice(in[root], begin, lengths_of_all[r]);
    else
      for (std::size_t from = 0; from < ranks; ++from)
        expected[r] += traits.in == Layout::block ? in[from] : slice(in[from], before(from, r), lengths[from][r]);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    out[r].resize(expected[r].size());
    if (operation == Operation::broadcast && r == root) out[r] = in[r];
    CollectiveCall& call = calls[r];
    call.operation = operation;
    call.in = TensorView(in[r].data(), DType::float32, in[r].size());
    call.out = TensorView(out[r].data(), DType::float32, out[r].size());
    if (has_root(operation)) call.root = root;
    if (traits.has_counts) call.counts = Counts(lengths[r]);
    std::vector<std::size_t> column;
    for (std::size_t from = 0; from < ranks; ++from) column.push_back(lengths[from][r]);
    if (is_own) call.recv_counts = Counts(column);
    call.count = is_own ? 0 : traits.has_counts ? call.counts.total() : n;
  }
  SmallSteps().carry_out(calls);
  for (std::size_t r = 0; r < ranks; ++r) EXPECT_EQ(out[r], expected[r]) << to_string(operation) << " on rank " << r;
}

}  // namespace

TEST(SmallSteps, EveryCollectiveIsRightInManyStepsAndPastTheCaches) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{999}, std::size_t{1024}, std::size_t{1025}, std::size_t{4999}}) {
    for (const OperationTraits& traits : operation_table) {
      if (is_message(traits.operation)) continue;
      if (!traits.has_counts) expect_right(traits.operation, Lengths(3, std::vector<std::size_t>(3, traits.operation == Operation::barrier ? 0 : n)));
      else if (traits.operation != Operation::all_to_all_v) expect_right(traits.operation, Lengths(3, {n, 0, 2 * n + 1}));
      else expect_right(traits.operation, {{n, 0, 7}, {2 * n + 1, n, 0}, {0, 3, n}});
    }
  }
}

namespace {

class Dispute : public ::testing::Test {
 protected:
  ~Dispute() override { detail::set_ballot_time(usual_); }

 private:
  std::chrono::milliseconds usual_ = detail::ballot_time();
};

// The ranks that have come know that they differ, and wait for the last one, by which they name whoever is to blame.
TEST_F(Dispute, ATaskReturnsWhileTheRanksDifferAndOneIsOnTheWay) {
  SmallSteps world;
  std::array<List, 3> x{List(2, 1.0F), List(3, 1.0F), List(3, 1.0F)};
  std::array<std::unique_ptr<Task>, 3> tasks;
  for (std::size_t r = 0; r < 3; ++r) tasks[r] = engines::shm::make_collective(world.lockstep[r], call_of(Operation::all_reduce, x[r], x[r]));
  detail::set_ballot_time(std::chrono::minutes(2));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(tasks[0]->advance() || tasks[1]->advance());
  EXPECT_TRUE(world.lockstep[0].is_disputed() && world.lockstep[1].is_disputed());
  EXPECT_EQ(tasks[0]->waiting_for(), std::vector<int>{2});
  for (const std::size_t r : {2, 1, 0}) {
    try {
      tasks[r]->advance();
      ADD_FAILURE() << "rank " << r << " has not noticed";
    } catch (const Mismatch& error) {
      EXPECT_EQ(error.info().culprit, 0) << error.what();
    }
    EXPECT_FALSE(world.lockstep[r].is_disputed());
  }
}

// A rank that does not come delays the error for a limited time, and not at all once the group is over.
TEST_F(Dispute, ADisputeEndsWithoutARankThatDoesNotCome) {
  for (const bool is_over : {false, true}) {
    SmallSteps world;
    std::array<List, 2> x{List(2, 1.0F), List(3, 1.0F)};
    std::array<std::unique_ptr<Task>, 2> tasks;
    for (std::size_t r = 0; r < 2; ++r) tasks[r] = engines::shm::make_collective(world.lockstep[r], call_of(Operation::all_reduce, x[r], x[r]));
    detail::set_ballot_time(is_over ? std::chrono::minutes(2) : std::chrono::milliseconds(1));
    if (is_over) world.segment->failure().state = 2;
    const base::Deadline deadline(std::chrono::seconds(60));
    const auto ends = [&] {
      while (!deadline.passed()) tasks[0]->advance() || tasks[1]->advance();
    };
    EXPECT_THROW(ends(), Mismatch);
  }
}

}  // namespace

// A measurement among ranks that are threads: what it reports, and that no wrong result passes.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "arena_file.h"
#include "base/deadline.h"
#include "harness/session.h"

namespace unisono::bench {
namespace {

using namespace std::chrono_literals;

/// An all_reduce of float32 for threads, right or with a flaw.
class ThreadCandidate final : public Candidate {
 public:
  enum class Flaw { none, last_element, beside_the_buffer, late, sleep };
  static constexpr int most_ranks = 4;
  /// The state that the threads share. Their arenas are mapped one by one, so a thread sanitizer does not see that these order anything.
  struct Meeting {
    explicit Meeting(int ranks) : barrier(ranks) {}
    std::array<std::atomic<const float*>, most_ranks> inputs{};
    std::barrier<> barrier;
  };

  ThreadCandidate(std::string name, Arena& arena, Meeting& meeting, Flaw flaw)
      : name_(std::move(name)), arena_(arena), meeting_(meeting), flaw_(flaw) {}

  std::string_view name() const override { return name_; }
  bool supports(Operation operation, DType dtype) const override { return operation == Operation::all_reduce && dtype == DType::float32; }
  void select(const Job& job) override { job_ = job; }
  void call() override {
    ++calls_;
    if (flaw_ == Flaw::sleep) std::this_thread::sleep_for(1us);
    meeting_.inputs[static_cast<std::size_t>(arena_.rank())] = static_cast<const float*>(job_.in);
    meeting_.barrier.arrive_and_wait();
    std::vector<float> sum(job_.shape.out);
    for (int r = 0; r < arena_.ranks(); ++r)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += meeting_.inputs[static_cast<std::size_t>(r)].load()[i];
    meeting_.barrier.arrive_and_wait();  // in place, nobody may write before everybody has read
    const bool guilty = arena_.rank() == arena_.ranks() - 1;
    if (guilty && (flaw_ == Flaw::last_element || (flaw_ == Flaw::late && calls_ > 5))) sum.back() += 1;
    std::memcpy(job_.out, sum.data(), sum.size() * sizeof(float));
    if (guilty && flaw_ == Flaw::beside_the_buffer) static_cast<float*>(job_.out)[sum.size()] = 0;
  }

 private:
  std::string name_;
  Arena& arena_;
  Meeting& meeting_;
  Flaw flaw_;
  Job job_ = {};
  int calls_ = 0;
};

Plan plan_for(int ranks) {
  return {.operations = {Operation::all_reduce}, .sizes = {4, 8, 100, 20'000}, .candidates = {}, .ranks = ranks, .block_time = 100us, .timeout = 30s};
}

/// Runs a session on every rank; the function is given its blocks, or what it threw.
void run_ranks(const Plan& plan, std::vector<ThreadCandidate::Flaw> flaws, const std::function<void(int, Session&)>& body) {
  const ArenaFile file(plan.ranks);
  ThreadCandidate::Meeting meeting(plan.ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < plan.ranks; ++rank)
    threads.emplace_back([&, rank] {
      Arena arena(file.path(), rank, plan.ranks, false, plan.timeout);
      Candidates candidates;
      for (std::size_t i = 0; i < flaws.size(); ++i)
        candidates.push_back(std::make_unique<ThreadCandidate>("number " + std::to_string(i), arena, meeting, flaws[i]));
      Session session(plan, arena, candidates);
      body(rank, session);
    });
}

TEST(BenchSession, ASessionMeasuresEveryCandidateAtEverySize) {
  using enum ThreadCandidate::Flaw;
  for (int ranks : {1, 2, 3}) {
    for (DataMode data : {DataMode::constant, DataMode::varying, DataMode::touch}) {
      Plan plan = plan_for(ranks);
      plan.data = data;
      run_ranks(plan, {none, none}, [&](int rank, Session& session) {
        EXPECT_GE(session.barrier_ns(), 0);
        for (std::uint64_t round = 0; round < 2; ++round) {
          const std::vector<Block> blocks = session.round(round);
          ASSERT_EQ(blocks.size(), 4U * 2U);
          std::map<std::size_t, std::set<std::string>> seen;
          for (const Block& block : blocks) {
            seen[block.bytes].insert(block.candidate);
            EXPECT_EQ(block.operation, Operation::all_reduce);
            EXPECT_EQ(block.samples_ns.size() >= 5, rank == 0);
            EXPECT_EQ(block.samples_ns.empty(), rank != 0);
            for (double ns : block.samples_ns) EXPECT_GT(ns, 0);
          }
          EXPECT_EQ(seen.size(), 4U);
          for (const auto& [bytes, names] : seen) EXPECT_EQ(names, (std::set<std::string>{"number 0", "number 1"})) << bytes;
        }
      });
    }
  }
}

TEST(BenchSession, ASessionCountsTheSwitchesOfACall) {
  using enum ThreadCandidate::Flaw;
  run_ranks(plan_for(1), {none, sleep}, [&](int, Session& session) {
    for (const Block& block : session.round(0)) {
      EXPECT_GT(block.cost.processor_ns, 0) << block.candidate;
      EXPECT_GE(block.cost.involuntary, 0) << block.candidate;
      if (block.candidate == "number 0") EXPECT_LT(block.cost.voluntary, 0.5) << "it waits for nobody";
      else EXPECT_GT(block.cost.voluntary, 0.5) << "it sleeps once in each call (a short sleep may be over before it begins)";
    }
  });
}

TEST(BenchSession, SizesThatComeToTheSameElementsAreMeasuredOnce) {
  Plan plan = plan_for(2);
  plan.sizes = {1, 2, 4, 6, 8};
  run_ranks(plan, {ThreadCandidate::Flaw::none}, [](int, Session& session) { EXPECT_EQ(session.round(0).size(), 2U); });
}

class BenchSessionFlaw : public ::testing::TestWithParam<ThreadCandidate::Flaw> {};

TEST_P(BenchSessionFlaw, AFlawEndsTheRunOnEveryRankAndNamesTheCulprit) {
  for (int ranks : {1, 2, 3}) {
    std::atomic<int> caught = 0;
    run_ranks(plan_for(ranks), {ThreadCandidate::Flaw::none, GetParam()}, [&](int, Session& session) {
      try {
        session.round(1);
      } catch (const WrongResult& wrong) {
        EXPECT_NE(std::string(wrong.what()).find("number 1, all_reduce of 4 bytes"), std::string::npos) << wrong.what();
        ++caught;
      }
    });
    EXPECT_EQ(caught, ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(Flaws, BenchSessionFlaw,
                         ::testing::Values(ThreadCandidate::Flaw::last_element, ThreadCandidate::Flaw::beside_the_buffer,
                                           ThreadCandidate::Flaw::late));

TEST(BenchArena, AFailureWakesTheOthers) {
  const ArenaFile file(2);
  std::jthread other([&] {
    Arena arena(file.path(), 1, 2, false, 30s);
    EXPECT_THROW(arena.barrier(), PeerGaveUp);
  });
  Arena arena(file.path(), 0, 2, false, 30s);
  arena.fail();
}

TEST(BenchArena, WaitingEndsAtTheDeadline) {
  const ArenaFile file(2);
  Arena arena(file.path(), 0, 2, true, 50ms);
  EXPECT_THROW(arena.barrier(), std::runtime_error);
}

// As with an MPI whose sends end in later calls of the sender.
TEST(BenchArena, ARankThatWaitsMakesTheProgressThatTheOtherNeeds) {
  const ArenaFile file(2);
  std::atomic<int> turns = 0;
  std::jthread other([&] {
    Arena arena(file.path(), 1, 2, false, 30s);
    for (const base::Deadline deadline(30s); turns < 3 && !deadline.passed();) std::this_thread::yield();
    arena.barrier();
  });
  Arena arena(file.path(), 0, 2, false, 30s);
  arena.while_waiting([&] { ++turns; });
  arena.barrier();
  EXPECT_GE(turns, 3);
}

TEST(BenchArena, RanksAgreeOnTheMaximum) {
  const ArenaFile file(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Arena arena(file.path(), rank, 3, false, 30s);
      for (int i = 0; i < 1000; ++i) EXPECT_EQ(arena.agree_on_maximum(i * 10 + (rank + i) % 3 - 5000), i * 10 + 2 - 5000);
    });
}

}  // namespace
}  // namespace unisono::bench

#include <algorithm>
#include <array>
#include <chrono>

#include "covers.h"
#include "unisono/detail/switches.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// A collective that this rank calls as one of the many, or as the odd one.
struct Case {
  const char* name;
  void (*call)(bool odd, std::vector<float>& x, std::vector<float>& y);
};

TensorView as(DType dtype, std::vector<float>& x) { return {x.data(), dtype, x.size() * sizeof(float) / size_of(dtype)}; }

// Each rank has room for 24 floats in x and y.
constexpr Case cases[] = {
    {"C1 operation", [](bool odd, auto& x, auto&) { odd ? broadcast(x) : all_reduce(x); }},
    {"C1 barrier", [](bool odd, auto& x, auto&) { odd ? barrier() : all_reduce(x); }},
    {"C1 direction", [](bool odd, auto& x, auto& y) { odd ? all_to_all(x, y) : all_reduce(x, y); }},
    {"C2 count", [](bool odd, auto& x, auto&) { all_reduce(std::span(x).first(odd ? 23 : 24)); }},
    {"C2 nothing", [](bool odd, auto& x, auto&) { all_reduce(std::span(x).first(odd ? 0 : 24)); }},
    {"C2 of a broadcast", [](bool odd, auto& x, auto&) { broadcast(std::span(x).first(odd ? 4 : 3)); }},
    {"C3 dtype of the same size", [](bool odd, auto& x, auto&) { all_reduce(as(odd ? DType::int32 : DType::float32, x)); }},
    {"C4 dtype of another size", [](bool odd, auto& x, auto&) { all_reduce(as(odd ? DType::float64 : DType::float32, x)); }},
    {"C5 reduce op", [](bool odd, auto& x, auto&) { all_reduce(x, odd ? ReduceOp::product : ReduceOp::sum); }},
    {"C5 callable", [](bool odd, auto& x, auto&) { odd ? all_reduce(x, [](float a, float b) { return a + b; }) : all_reduce(x); }},
    {"C5 of a scan", [](bool odd, auto& x, auto&) { scan(x, odd ? ReduceOp::min : ReduceOp::max); }},
    {"C6 root of a broadcast", [](bool odd, auto& x, auto&) { broadcast(x, odd ? 1 : 0); }},
    {"C6 root of a reduce", [](bool odd, auto& x, auto&) { reduce(x, odd ? 0 : 1); }},
    {"C6 root of a gather",
     [](bool odd, auto& x, auto& y) { gather(std::span(x).first(1), std::span(y).first(static_cast<std::size_t>(world_size())), odd ? 0 : 1); }},
    {"tag", [](bool odd, auto& x, auto&) { all_reduce(x, ReduceOp::sum, world(), {.tag = odd ? 1 : 0}); }},
};

void expect_mismatch(const Case& test, int odd_rank, std::size_t length = 24) {
  const bool odd = rank() == odd_rank;
  auto x = values<float>(length, rank());
  std::vector<float> y(length, -1.0F);
  const auto error = thrown_by<Mismatch>([&] { test.call(odd, x, y); });
  EXPECT_EQ(difference(x, values<float>(length, rank())), "") << test.name;
  EXPECT_EQ(difference(y, std::vector<float>(length, -1.0F)), "") << test.name;
  // Rule 7
  EXPECT_EQ(error.group(), "world");
  EXPECT_EQ(error.rank(), rank());
  EXPECT_GT(error.sequence(), 0U);
  EXPECT_FALSE(error.operation().empty());
  EXPECT_FALSE(error.hint().empty());
  expect_culprit(error, odd_rank);
}

/// The error that a rank finds depends on which others have come by then: in these tests it waits for all of them.
class PatientComparison {
 public:
  PatientComparison() { detail::set_ballot_time(std::chrono::minutes(2)); }
  ~PatientComparison() { detail::set_ballot_time(usual_); }
  PatientComparison(const PatientComparison&) = delete;
  PatientComparison& operator=(const PatientComparison&) = delete;

 private:
  const std::chrono::milliseconds usual_{500};
};

// C1 … C6, rule 6: on every rank, before anything is moved, and the group stays usable. One odd rank, whichever it is.
MANY_TEST(Mismatch, OneOddRankIsNamed) {
  COVERS("C-33", "Q-03", "TS-44");
  const PatientComparison patient;
  for (const Case& test : cases) {
    if (std::string(test.name) == "C1 direction" && 24 % world_size() != 0) continue;
    SCOPED_TRACE(test.name);
    for (int odd = 0; odd < world_size(); ++odd) {
      expect_mismatch(test, odd);
      expect_usable();
    }
  }
}

// The culprit where several ranks call something else: the numbers say how many elements each rank calls with.
MANY_TEST(Mismatch, ARankThatDiffersFromMoreThanHalfIsToBlame) {
  const PatientComparison patient;
  struct Row {
    std::vector<std::size_t> counts;
    int culprit;              // -1: nobody
    std::vector<int> blamed;  // whose message says so
  };
  const std::vector<Row> rows{
      {{1, 2}, -1, {}},              // one against one
      {{1, 2, 1}, 1, {1}},           // two against one
      {{1, 2, 3}, -1, {}},           // all different
      {{2, 1, 1, 1}, 0, {0}},        // three against one
      {{1, 1, 2, 2}, -1, {}},        // two against two
      {{1, 1, 2, 3}, -1, {}},        // the most, but not more than half
      {{1, 2, 1, 2, 1}, 1, {1, 3}},  // three against two of one mind
      {{1, 2, 1, 1, 3}, 1, {1, 4}},  // three against two of different minds
      {{1, 2, 1, 3, 2}, -1, {}},     // two, two and one
      {{5, 1, 2, 3, 4}, -1, {}},     // all different
  };
  for (const Row& row : rows) {
    if (static_cast<int>(row.counts.size()) != world_size()) continue;
    const auto n = static_cast<std::size_t>(rank());
    std::vector<float> x(row.counts[n], 1.0F);
    for (int round = 0; round < 4; ++round) {
      const auto error = thrown_by<Mismatch>([&] {
        if ((rank() + round) % 4 == 3) all_reduce_async(x).wait();
        else all_reduce(x);
      });
      EXPECT_EQ(error.culprit().value_or(-1), row.culprit) << error.what();
      EXPECT_EQ(error.host().empty(), row.culprit < 0) << error.what();
      const bool blamed = std::ranges::find(row.blamed, rank()) != row.blamed.end();
      EXPECT_EQ(std::string(error.what()).find("this rank another than most") != std::string::npos, blamed) << error.what();
    }
    expect_usable();
  }
}

// The order of two calls: whoever makes them the other way round.
WORLD_TEST_IN((Worlds{.at_least = 3}), Mismatch, AnotherOrderIsAMismatch) {
  const PatientComparison patient;
  for (int odd = 0; odd < world_size(); ++odd) {
    std::vector<float> x(2);
    for (int call = 0; call < 2; ++call) {
      const auto error = thrown_by<Mismatch>([&] { (rank() == odd) == (call == 0) ? broadcast(x) : all_reduce(x); });
      expect_culprit(error, odd);
    }
    expect_usable();
  }
}

// The counts of a call that has one for each rank; and of pairs of numbers that must fit, the rank that fits to nobody.
WORLD_TEST_IN((Worlds{.at_least = 3}), Mismatch, DifferentCountsAreAMismatch) {
  const PatientComparison patient;
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    std::vector<std::size_t> counts(n, 3);
    if (rank() == odd) counts[0] = rank() == 0 ? 3 : 4, counts[n - 1] = rank() == 0 ? 4 : 2;
    std::vector<float> mine(counts[static_cast<std::size_t>(rank())]), all;
    for (const std::size_t count : counts) all.resize(all.size() + count);
    expect_culprit(thrown_by<Mismatch>([&] { all_gather_v(mine, all, counts); }), odd);

    std::vector<std::size_t> sends(n, 2);
    const std::vector<std::size_t> expects(n, 2);
    for (std::size_t r = 0; r < n; ++r) {
      if (rank() == odd && static_cast<int>(r) != odd) sends[r] = 3;
    }
    std::vector<float> from(2 * n + (rank() == odd ? n - 1 : 0)), to(2 * n);
    expect_culprit(thrown_by<Mismatch>([&] { all_to_all_v(from, sends, to, expects); }), odd);
    expect_usable();
  }
}

// Unless UNISONO_COMPARE says so, the number of elements counts and not their shape.
MANY_TEST(Mismatch, DifferentShapesOfOneLengthAreNoMismatch) {
  std::vector<float> x(6, 1.0F);
  const std::vector<std::int64_t> wide{2, 3}, high{3, 2};
  all_reduce(TensorView(x.data(), DType::float32, rank() == 0 ? wide : high));
  EXPECT_EQ(x, std::vector<float>(6, static_cast<float>(world_size())));
}

// Both sides name each other and what they called.
MANY_TEST(Mismatch, AMismatchSaysWhatEachCalled) {
  std::vector<float> x(rank() == 1 ? 2000 : 1000);
  const PatientComparison patient;
  const auto error = thrown_by<Mismatch>([&] { all_reduce(x); });
  const std::string text = error.what();
  expect_culprit(error, 1);
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
  EXPECT_NE(text.find("2000"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_EQ(error.operation(), "all_reduce");
}

// Every rank something else.
MANY_TEST(Mismatch, AllDifferentCallsAreAMismatch) {
  for (int round = 0; round < 10; ++round) {
    std::vector<double> x(static_cast<std::size_t>(10 + rank()) * (round % 2 == 0 ? 1 : 5000), 1.5);
    const auto before = x;
    EXPECT_THROW(all_reduce(x), Mismatch);
    EXPECT_EQ(difference(x, before), "");
    if (round % 3 == 0) expect_usable();
  }
  expect_usable();
}

// Large ones, which would go through the slots in many steps.
MANY_TEST(Mismatch, AMismatchOfLargeBuffersIsNoticed) {
  auto x = values<float>(100003, rank());
  EXPECT_THROW(all_reduce(std::span(x).first(rank() == 0 ? 100002 : 100003)), Mismatch);
  EXPECT_THROW(all_reduce(x, rank() == world_size() - 1 ? ReduceOp::max : ReduceOp::sum), Mismatch);
  EXPECT_EQ(difference(x, values<float>(x.size(), rank())), "");
  all_reduce(x);
  EXPECT_EQ(difference(x, sums<float>(x.size(), world_size())), "");
}

// C1 … C6 once more, where the elements of a call fill many slots: nothing is moved before all have agreed.
constexpr std::size_t large = 200'000;
constexpr Case large_cases[] = {
    {"C1 operation", [](bool odd, auto& x, auto&) { odd ? broadcast(x) : all_reduce(x); }},
    {"C2 count", [](bool odd, auto& x, auto&) { all_reduce(std::span(x).first(odd ? large - 1 : large)); }},
    {"C3 dtype of the same size", [](bool odd, auto& x, auto&) { all_reduce(as(odd ? DType::int32 : DType::float32, x)); }},
    {"C3 of a broadcast", [](bool odd, auto& x, auto&) { broadcast(as(odd ? DType::int32 : DType::float32, x)); }},
    {"C4 dtype of another size", [](bool odd, auto& x, auto&) { all_reduce(as(odd ? DType::float64 : DType::float32, x)); }},
    {"C4 of as many elements",
     [](bool odd, auto& x, auto&) { all_reduce(odd ? as(DType::float64, x) : TensorView(x.data(), DType::float32, large / 2)); }},
    {"C5 reduce op", [](bool odd, auto& x, auto&) { all_reduce(x, odd ? ReduceOp::product : ReduceOp::sum); }},
    {"C6 root of a broadcast", [](bool odd, auto& x, auto&) { broadcast(x, odd ? 1 : 0); }},
    {"C6 root of a reduce", [](bool odd, auto& x, auto&) { reduce(x, odd ? 0 : 1); }},
    {"C6 root of a gather",
     [](bool odd, auto& x, auto& y) {
       const std::size_t block = large / static_cast<std::size_t>(world_size());
       gather(std::span(x).first(block), std::span(y).first(block * static_cast<std::size_t>(world_size())), odd ? 0 : 1);
     }},
};

MANY_TEST(Mismatch, OneOddRankInALargeCallIsNamed) {
  const PatientComparison patient;
  for (const Case& test : large_cases) {
    SCOPED_TRACE(test.name);
    for (const int odd : {0, world_size() - 1}) {
      expect_mismatch(test, odd, large);
      expect_usable();
    }
  }
}

// Between hosts the elements of small calls travel with the comparison, those of others directly from rank to rank, and large ones after it.
MANY_TEST(Mismatch, AMismatchOfLengthsThatTravelInDifferentWaysIsNoticed) {
  const PatientComparison patient;
  constexpr std::size_t few = 24, some = 12'000, many = 100'000;
  for (const auto& [usual, odd_one] :
       {std::pair{few, some}, std::pair{some, few}, std::pair{some, many}, std::pair{many, some}, std::pair{some, some - 1}}) {
    for (int odd = 0; odd < world_size(); odd += std::max(1, world_size() - 1)) {
      const auto x = values<float>(rank() == odd ? odd_one : usual, rank());
      std::vector<float> sums(x.size(), -1.0F);
      expect_culprit(thrown_by<Mismatch>([&] { all_reduce(x, sums); }), odd);
      EXPECT_EQ(sums, std::vector<float>(x.size(), -1.0F)) << usual << " and " << odd_one;
      if (rank() == odd) EXPECT_THROW(barrier(), Mismatch);
      else EXPECT_THROW(all_reduce(x, sums), Mismatch);
      EXPECT_EQ(sums, std::vector<float>(x.size(), -1.0F)) << usual << " and a barrier";
      expect_usable();
    }
  }
}

MANY_TEST(Mismatch, FiftyMismatchesInARowAreNoticed) {
  const PatientComparison patient;
  for (int i = 0; i < 50; ++i) expect_mismatch(cases[static_cast<std::size_t>(i) % 12 + 3], i % world_size());
  expect_usable();
}

// C9 with an error: asynchronous on some ranks, blocking on the others.
MANY_TEST(Mismatch, AMismatchBetweenBlockingAndAsynchronousCallsIsNoticed) {
  for (int i = 0; i < 20; ++i) {
    auto x = values<float>(rank() == i % world_size() ? 10 : 11, rank());
    const auto before = x;
    if ((rank() + i) % 2 == 0) {
      EXPECT_THROW(all_reduce(x), Mismatch);
    } else {
      Work work = all_reduce_async(x);
      EXPECT_THROW(work.wait(), Mismatch);
    }
    EXPECT_EQ(x, before);
    if (i % 4 == 0) expect_usable();
  }
  expect_usable();
}

// A rank that comes late does not hide that two others already disagree, and meets the same error when it comes.
WORLD_TEST_IN((Worlds{.at_least = 3}), Mismatch, AMismatchDoesNotWaitForALateRank) {
  if (conformance::presents_hosts()) GTEST_SKIP() << "the ranks of each host wait for each other before they look at other hosts";
  for (const int late : {0, 1, world_size() - 1}) {  // half a second each: so long do the others wait for it before they say that they disagree
    const int odd = late == 0 ? 1 : 0;
    std::array<int, 1> go{};
    if (rank() == late) {
      for (int r = 0; r < world_size(); ++r) {
        if (r != late) recv(go, r);
      }
      std::vector<float> x(3);
      EXPECT_THROW(all_reduce(x), Mismatch);
    } else {
      std::vector<float> x(rank() == odd ? 3 : 4);
      EXPECT_THROW(all_reduce(x), Mismatch);
      send(go, late);
    }
    expect_usable();
  }
}

// A host that comes later decides as those that have decided without it: with it, ranks 0 and 1 would be to blame.
WORLD_TEST_IN((Worlds{.at_least = 5, .at_most = 5}), Mismatch, AHostThatComesTooLateIsNotCountedByItselfEither) {
  if (!conformance::presents_hosts() || nnodes() != 3) GTEST_SKIP() << "there are no three hosts";
  const int late = 4;
  for (int round = 0; round < 3; ++round) {
    std::array<int, 1> go{};
    if (rank() == late) {
      for (int r = 0; r < late; ++r) recv(go, r);
    }
    std::vector<float> x(rank() < 2 ? 3 : 4);
    const auto error = thrown_by<Mismatch>([&] {
      if (round == 1) all_reduce_async(x).wait();
      else all_reduce(x);
    });
    EXPECT_EQ(error.culprit(), std::nullopt) << error.what();
    EXPECT_NE(std::string(error.what()).find("ranks 0, 1 all_reduce(float32 × 3, sum), ranks 2, 3 all_reduce(float32 × 4, sum)"), std::string::npos)
        << error.what();
    if (rank() != late) send(go, late);
    expect_usable();
  }
}

}  // namespace

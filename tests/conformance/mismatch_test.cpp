#include <array>

#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// A collective that this rank calls as one of the many, or as the odd one.
struct Case {
  const char* name;
  void (*call)(bool odd, std::vector<float>& x, std::vector<float>& y);
};

Tensor as(DType dtype, std::vector<float>& x) { return {x.data(), dtype, x.size() * sizeof(float) / size_of(dtype)}; }

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

void expect_mismatch(const Case& test, bool odd) {
  auto x = values<float>(24, rank());
  std::vector<float> y(24, -1.0F);
  const auto error = thrown_by<Mismatch>([&] { test.call(odd, x, y); });
  EXPECT_EQ(difference(x, values<float>(24, rank())), "") << test.name;
  EXPECT_EQ(y, std::vector<float>(24, -1.0F)) << test.name;
  // Rule 7
  EXPECT_EQ(error.group(), "world");
  EXPECT_EQ(error.rank(), rank());
  EXPECT_GT(error.sequence(), 0U);
  EXPECT_FALSE(error.operation().empty());
  EXPECT_FALSE(error.hint().empty());
  ASSERT_TRUE(error.culprit().has_value());
  EXPECT_NE(*error.culprit(), rank());
  EXPECT_FALSE(error.host().empty());
}

// C1 … C6, W-09, C-33, Q-03, TS-44, rule 6: on every rank, before anything is moved, and the group stays usable. One odd rank, whichever it is.
MANY_TEST(Mismatch, OneOddRank) {
  for (const Case& test : cases) {
    if (std::string(test.name) == "C1 direction" && 24 % world_size() != 0) continue;
    SCOPED_TRACE(test.name);
    for (int odd = 0; odd < world_size(); ++odd) {
      expect_mismatch(test, rank() == odd);
      expect_usable();
    }
  }
}

// Both sides name each other and what they called.
MANY_TEST(Mismatch, SaysWhatEachCalled) {
  std::vector<float> x(rank() == 1 ? 2000 : 1000);
  const auto error = thrown_by<Mismatch>([&] { all_reduce(x); });
  const std::string text = error.what();
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
  EXPECT_NE(text.find("2000"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_EQ(error.operation(), "all_reduce");
  if (rank() != 1) {
    EXPECT_EQ(error.culprit(), 1);
  }
}

// Every rank something else.
MANY_TEST(Mismatch, AllDifferent) {
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
MANY_TEST(Mismatch, OfLargeBuffers) {
  auto x = values<float>(100003, rank());
  EXPECT_THROW(all_reduce(std::span(x).first(rank() == 0 ? 100002 : 100003)), Mismatch);
  EXPECT_THROW(all_reduce(x, rank() == world_size() - 1 ? ReduceOp::max : ReduceOp::sum), Mismatch);
  EXPECT_EQ(difference(x, values<float>(x.size(), rank())), "");
  all_reduce(x);
  EXPECT_EQ(difference(x, sums<float>(x.size(), world_size())), "");
}

MANY_TEST(Mismatch, FiftyInARow) {
  for (int i = 0; i < 50; ++i) expect_mismatch(cases[static_cast<std::size_t>(i) % 12 + 3], rank() == i % world_size());
  expect_usable();
}

// C9 with an error: asynchronous on some ranks, blocking on the others.
MANY_TEST(Mismatch, BetweenBlockingAndAsynchronousCalls) {
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

// Who comes late does not hide that two others already disagree, and meets the same error when it comes.
WORLD_TEST_IN((Worlds{.at_least = 3}), Mismatch, DoesNotWaitForALateRank) {
  const int late = world_size() - 1;
  if (conformance::presents_hosts()) GTEST_SKIP() << "the ranks of each host wait for each other before they look at other hosts";
  for (int round = 0; round < 5; ++round) {
    std::array<int, 1> go{};
    if (rank() == late) {
      for (int r = 0; r < late; ++r) recv(go, r);
      std::vector<float> x(3);
      EXPECT_THROW(all_reduce(x), Mismatch);
    } else {
      std::vector<float> x(rank() == 0 ? 3 : 4);
      EXPECT_THROW(all_reduce(x), Mismatch);
      send(go, late);
    }
    expect_usable();
  }
}

}  // namespace

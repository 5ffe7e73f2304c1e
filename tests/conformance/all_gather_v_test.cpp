#include <array>
#include <list>
#include <ranges>

#include "blocks.h"
#include "covers.h"

using namespace unisono;
using namespace conformance;

namespace {

// Every element of every block, everywhere.
WORLD_TEST(AllGatherV, ResultsAreRightInEveryDivision) {
  COVERS("TS-28", "W-02", "K-74");
  for (const Lengths& counts : uneven(world_size(), sizeof(float))) {
    const auto in = values<float>(own(counts), rank());
    std::vector<float> out(total(counts), -1.0F);
    all_gather_v(in, out, counts);
    ASSERT_EQ(difference(out, blocks_of_all<float>(counts)), "") << testing::PrintToString(counts);
    ASSERT_EQ(difference(in, values<float>(own(counts), rank())), "") << "the input was written to";
  }
}

// The caller knows no other length than its own. A vector that was longer, shorter, or has no room yet.
WORLD_TEST(AllGatherV, AllGatherVSizesItsOutput) {
  COVERS("TS-28");
  std::vector<double> out(3, -1.0);
  for (const Lengths& counts : uneven(world_size(), sizeof(double))) {
    const std::vector<std::size_t> learned = all_gather_v(values<double>(own(counts), rank()), out);
    ASSERT_EQ(learned, counts);
    ASSERT_EQ(difference(out, blocks_of_all<double>(counts)), "") << testing::PrintToString(counts);
  }
}

// The caller's block of the output may be the input.
WORLD_TEST(AllGatherV, CallsWorkInPlace) {
  for (const Lengths& counts : uneven(world_size(), sizeof(std::int64_t))) {
    std::vector<std::int64_t> out(total(counts), -1);
    const auto mine = std::span(out).subspan(before(counts, rank()), own(counts));
    const auto in = values<std::int64_t>(own(counts), rank());
    std::copy(in.begin(), in.end(), mine.begin());
    all_gather_v(mine, out, counts);
    ASSERT_EQ(difference(out, blocks_of_all<std::int64_t>(counts)), "") << testing::PrintToString(counts);
  }
}

WORLD_TEST(AllGatherV, EveryDtypeIsCarriedBitForBit) {
  COVERS("W-04");
  Lengths counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(static_cast<std::size_t>(r % 3 == 1 ? 0 : 19 + 5 * r));
  for (const DType dtype : oracle::every_dtype) {
    auto in = oracle::values(dtype, own(counts), static_cast<std::uint64_t>(rank()));
    oracle::Bytes out(total(counts) * size_of(dtype));
    all_gather_v(line(in, dtype), line(out, dtype), counts);
    ASSERT_TRUE(out == bytes_of_all(dtype, counts)) << to_string(dtype);
  }
}

// Counts from whatever holds integers.
WORLD_TEST(AllGatherV, CountsOfEveryKindAreTaken) {
  const int n = world_size();
  const auto in = values<int>(static_cast<std::size_t>(rank()) + 1, rank());
  std::vector<int> plain;
  for (int r = 0; r < n; ++r) plain.push_back(r + 1);
  const Lengths lengths(plain.begin(), plain.end());
  const auto expected = blocks_of_all<int>(lengths);
  std::vector<int> out(total(lengths));
  const auto check = [&](const Counts& counts) {
    std::fill(out.begin(), out.end(), -1);
    all_gather_v(in, out, counts);
    EXPECT_EQ(out, expected);
  };
  check(plain);
  check(lengths);
  check(std::span<const std::size_t>(lengths));
  check(std::list<long>(plain.begin(), plain.end()));
  check(std::views::iota(1, n + 1));
  check(std::views::iota(-3, n + 1) | std::views::filter([](int i) { return i > 0; }));  // of no known size
  std::array<std::uint8_t, 8> few{};
  std::copy(plain.begin(), plain.end(), few.begin());
  check(std::span(few).first(static_cast<std::size_t>(n)));
  if (n == 1) {
    all_gather_v(in, out, {1});
    all_gather_v(std::vector<int>{}, std::span(out).first(0), {0});
    std::vector<int> grows;
    EXPECT_THROW(all_gather_v(in, grows, {1}), InvalidArgument) << "with counts it is not sized";
    EXPECT_EQ(all_gather_v(in, grows), Lengths{1});
  }
  if (n == 3) {
    all_gather_v(in, out, {1U, 2, 3L});
    EXPECT_EQ(out, expected);
  }
}

// Tensors of another shape on every rank, whose shapes all know. Nothing is padded to the largest, and each comes back as it was.
WORLD_TEST(AllGatherV, TensorsMayHaveDifferentShapes) {
  COVERS("I-29", "K-28", "Q-02");
  struct Shape {
    std::int64_t a, b, c;
    std::size_t numel() const { return static_cast<std::size_t>(a * b * c); }
  };
  Lengths counts;
  std::vector<Shape> shapes;
  for (int r = 0; r < world_size(); ++r) {
    shapes.push_back({r + 1, r + 2, r + 3});
    counts.push_back(shapes.back().numel());
  }
  auto in = values<float>(own(counts), rank());
  const Shape& mine = shapes[static_cast<std::size_t>(rank())];
  const std::array<std::int64_t, 3> shape{mine.a, mine.b, mine.c};
  std::vector<float> out(total(counts));
  all_gather_v(TensorView(in.data(), DType::float32, shape), out, counts);
  for (int r = 0; r < world_size(); ++r) {
    const auto block = std::span(out).subspan(before(counts, r), counts[static_cast<std::size_t>(r)]);
    ASSERT_EQ(difference(block, values<float>(block.size(), r)), "") << "the tensor of rank " << r;
  }
}

// From every second element, backwards, into a column.
WORLD_TEST(AllGatherV, StridedViewsAreFollowed) {
  COVERS("W-05", "K-61");
  const std::size_t unit = sanitized ? 50 : 9001;
  Lengths counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(unit * static_cast<std::size_t>(r % 3));
  const auto length = static_cast<std::int64_t>(own(counts));
  auto in = values<float>(2 * own(counts) + 1, rank());
  std::vector<float> out(3 * total(counts) + 1, -1.0F);
  const std::array<std::int64_t, 1> in_shape{length}, in_strides{-2}, out_shape{static_cast<std::int64_t>(total(counts))}, out_strides{3};
  const TensorView from(in.data() + 2 * own(counts), DType::float32, in_shape, in_strides);
  const TensorView to(out.data(), DType::float32, out_shape, out_strides);
  const auto check = [&] {
    std::size_t at = 0;
    for (int r = 0; r < world_size(); ++r) {
      const std::size_t m = counts[static_cast<std::size_t>(r)];
      for (std::size_t i = 0; i < m; ++i, ++at) {
        ASSERT_EQ(out[3 * at], value<float>(r, 2 * m - 2 * i)) << i << " of rank " << r;
        ASSERT_EQ(out[3 * at + 1], -1.0F);
      }
    }
  };
  all_gather_v(from, to, counts);
  check();
  std::fill(out.begin(), out.end(), -1.0F);
  all_gather_v_async(from, to, counts).wait();
  check();
  std::vector<float> sized;
  EXPECT_EQ(all_gather_v(from, sized), counts);
  for (std::size_t i = 0; i < sized.size(); ++i) ASSERT_EQ(sized[i], out[3 * i]);
}

// The call keeps its counts, also where the caller's are gone.
WORLD_TEST(AllGatherV, AsynchronousCallsGiveTheSame) {
  std::vector<std::vector<float>> ins, outs;
  std::vector<Work> works;
  const auto divisions = uneven(world_size(), sizeof(float));
  for (const Lengths& counts : divisions) {
    ins.push_back(values<float>(own(counts), rank()));
    outs.emplace_back(total(counts), -1.0F);
  }
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    auto gone = std::make_unique<Lengths>(divisions[i]);
    works.push_back(all_gather_v_async(ins[i], outs[i], *gone));
    std::fill(gone->begin(), gone->end(), 77777);
  }
  wait_all(works);
  for (std::size_t i = 0; i < divisions.size(); ++i) ASSERT_EQ(difference(outs[i], blocks_of_all<float>(divisions[i])), "") << i;
}

WORLD_TEST(AllGatherV, CallsWorkInGroupsOfAnyOrder) {
  COVERS("W-06");
  std::vector<int> downwards;
  for (int r = world_size() - 1; r >= 0; --r) downwards.push_back(r);
  const auto turned = new_group(downwards);
  const auto half = split_group(world(), rank() % 2);
  for (const ProcessGroup& group : {*turned, *half}) {
    for (const Lengths& counts : uneven(group.size(), sizeof(float))) {
      const auto mine = values<float>(counts[static_cast<std::size_t>(group.rank())], group.rank());
      std::vector<float> out(total(counts), -1.0F);
      all_gather_v(mine, out, counts, group);
      ASSERT_EQ(difference(out, blocks_of_all<float>(counts)), "") << group.name();
      std::vector<float> sized;
      ASSERT_EQ(all_gather_v(mine, sized, group, {.timeout = std::chrono::seconds(60)}), counts);
      ASSERT_EQ(sized, out);
    }
  }
}

// Validation is the same for a rank that is alone; it comes before anything is sent.
WORLD_TEST(AllGatherV, AllGatherVRefusesWrongCounts) {
  COVERS("C-11", "K-27");
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> in(3), out(3 * n);
  const auto refuses = [&](const Counts& counts, const char* why) {
    const auto error = thrown_by<InvalidArgument>([&] { all_gather_v(in, out, counts); });
    EXPECT_NE(error.message().find(why), std::string::npos) << error.what();
    EXPECT_EQ(error.operation(), "all_gather_v");
  };
  refuses(Lengths(n + 1, 3), "in a group of");
  refuses({}, "in a group of");
  refuses(Lengths(n, 4), "has 3 elements");
  Lengths other(n, 3);
  other[n - 1] = 4;
  refuses(other, rank() == world_size() - 1 ? "has 3 elements" : "by the counts it has");
  std::vector<int> negative(n, 3);
  negative[0] = -1;
  refuses(negative, "-1 is not a number of elements");
  refuses(Lengths(n + 0, std::size_t{1} << 63), "is not a number of elements");
  if (n > 2) refuses(Lengths(n, (std::size_t{1} << 62) + 1), "beyond any memory");
  std::vector<double> wrong(3 * n);
  EXPECT_THROW(all_gather_v(in, wrong, Lengths(n, 3)), InvalidArgument);  // no element is converted
  EXPECT_THROW(all_gather_v(in, wrong), InvalidArgument);
  EXPECT_THROW(all_gather_v(std::span(out).first(1), out), InvalidArgument) << "the input lies in what is sized";
  if (n > 1) {
    EXPECT_THROW(all_gather_v(std::span(out).subspan(1, 3), out, Lengths(n, 3)), InvalidArgument) << "input and output overlap";
  }
  expect_usable();
}

// Rule 6: the counts are compared, all of them, on every rank; the error says whose differ, and the group stays usable.
MANY_TEST(AllGatherV, CountsThatDifferAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    // Sum and own length agree: only the numbers of others differ.
    Lengths counts(n, 4);
    const auto last = static_cast<std::size_t>((odd + 1) % world_size());
    std::vector<float> in(4), out(4 * n, -1.0F);
    if (rank() == odd) {
      counts[last] += n;
      out.resize(5 * n, -1.0F);
    }
    const auto before_call = out;
    const auto error = thrown_by<Mismatch>([&] { all_gather_v(in, out, counts); });
    EXPECT_EQ(out, before_call);
    EXPECT_EQ(error.operation(), "all_gather_v");
    expect_culprit(error, odd);
    expect_usable();
  }
  if (n > 2) {
    // The sum is the same on all ranks.
    Lengths counts(n, 5);
    if (rank() == 1) counts[0] = 6, counts[2] = 4;
    std::vector<float> in(5), out(5 * n, -1.0F);
    const auto error = thrown_by<Mismatch>([&] { all_gather_v(in, out, counts); });
    EXPECT_NE(error.message().find("[6, 5, 4"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("[5, 5, 5"), std::string::npos) << error.what();
    EXPECT_EQ(out, std::vector<float>(5 * n, -1.0F));
    expect_usable();
  }
}

// A single rank knows the counts, and the others ask for them; its dtype differs; its operation differs.
MANY_TEST(AllGatherV, OtherCallsAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    std::vector<float> in(2), out(2 * n);
    std::vector<float> sized{7.0F};
    if (rank() == odd) {
      EXPECT_THROW(all_gather_v(in, out, Lengths(n, 2)), Mismatch);
    } else {
      EXPECT_EQ(thrown_by<Mismatch>([&] { all_gather_v(in, sized); }).operation(), "all_gather_v");
      EXPECT_EQ(sized, std::vector<float>{7.0F}) << "sized before it was known to fit";
    }
    expect_usable();
    std::vector<std::int32_t> integers(2), sized_integers{7};
    if (rank() == odd) {
      EXPECT_THROW(all_gather_v(integers, sized_integers), Mismatch);
      EXPECT_EQ(sized_integers, std::vector<std::int32_t>{7});
    } else {
      const auto error = thrown_by<Mismatch>([&] { all_gather_v(in, sized); });
      expect_culprit(error, odd);
      EXPECT_NE(error.message().find("int32"), std::string::npos) << error.what();
      EXPECT_EQ(sized, std::vector<float>{7.0F});
    }
    expect_usable();
    // A plain call of the numbers that an exchanging one sends is not taken for it.
    std::vector<std::uint64_t> two(2), pairs(2 * n);
    if (rank() == odd) {
      EXPECT_THROW(all_gather(two, pairs), Mismatch);
    } else {
      const auto error = thrown_by<Mismatch>([&] { all_gather_v(in, sized); });
      EXPECT_NE(error.message().find("all_gather_v: all_gather(uint64"), std::string::npos) << error.what();
    }
    expect_usable();
  }
}

// Rule 6: two that differ do not wait for a third one that is late.
WORLD_TEST_IN((Worlds{.at_least = 3}), AllGatherV, AMismatchDoesNotWaitForALateRank) {
  const auto n = static_cast<std::size_t>(world_size());
  const int late = world_size() - 1;
  if (presents_hosts()) GTEST_SKIP() << "the ranks of each host wait for each other before they look at other hosts";
  std::array<int, 1> go{};
  Lengths counts(n, 4);
  if (rank() == 0) counts[1] = 5;
  std::vector<float> in(4), out(total(counts));
  if (rank() == late) {
    for (int r = 0; r < late; ++r) recv(go, r);
    EXPECT_THROW(all_gather_v(in, out, counts), Mismatch);
  } else {
    EXPECT_THROW(all_gather_v(in, out, counts), Mismatch);
    send(go, late);
  }
  expect_usable();
}

// Rule 6: a deadline, of both steps of the exchanging form together.
WORLD_TEST_IN((Worlds{.at_least = 2, .poisons = true}), AllGatherV, AllGatherVEndsAtItsDeadline) {
  using namespace std::chrono_literals;
  if (rank() == 0) return;
  std::vector<float> in(3), out;
  if (rank() == 1) {
    const auto error = thrown_by<Error>([&] { all_gather_v(in, out, world(), {.timeout = 50ms}); });
    EXPECT_EQ(error.operation(), "all_gather_v");
  } else {
    EXPECT_THROW(all_gather_v(in, out, world(), {.timeout = 50ms}), Error);
  }
  EXPECT_TRUE(out.empty());
}

// Rule 6: who has no memory for what the others have says so to all of them, instead of leaving them to wait.
template <class T>
struct NoMemory {
  using value_type = T;
  NoMemory() = default;
  template <class U>
  NoMemory(const NoMemory<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t) { throw std::bad_alloc(); }
  void deallocate(T*, std::size_t) {}
  friend bool operator==(NoMemory, NoMemory) { return true; }
};

WORLD_TEST_IN((Worlds{.at_least = 2, .poisons = true}), AllGatherV, ARankWithoutMemoryForTheOutputIsNamed) {
  const std::vector<float> in(3, 1.0F);
  if (rank() == 1) {
    std::vector<float, NoMemory<float>> out;
    EXPECT_THROW(all_gather_v(in, out), std::bad_alloc);
  } else {
    std::vector<float> out;
    const auto error = thrown_by<PeerFailed>([&] { all_gather_v(in, out); });
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
    EXPECT_EQ(error.operation(), "all_gather_v");
  }
}

}  // namespace

#include <array>

#include "blocks.h"
#include "covers.h"

using namespace unisono;
using namespace conformance;

namespace {

using Matrix = std::vector<Lengths>;  // [from][to]

Lengths column(const Matrix& m, int to) {
  Lengths counts;
  for (const Lengths& row : m) counts.push_back(row[static_cast<std::size_t>(to)]);
  return counts;
}

// The numbers that ranks send to each other: nothing, a little, all from one, all to one, only to oneself, a ring, triangles, and more than a slot
// holds.
std::vector<Matrix> traffic(int n, std::size_t element_bytes) {
  const auto ranks = static_cast<std::size_t>(n);
  const std::size_t slot = slot_bytes / element_bytes;
  std::vector<Matrix> all;
  const auto add = [&](auto&& amount) {
    Matrix m(ranks, Lengths(ranks));
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t to = 0; to < ranks; ++to) m[from][to] = amount(from, to);
    }
    all.push_back(std::move(m));
  };
  add([](std::size_t, std::size_t) { return 0; });
  add([](std::size_t from, std::size_t to) { return from * 5 + to * 3 + 1; });
  add([&](std::size_t from, std::size_t) { return from == ranks - 1 ? 1009 : 0; });
  add([](std::size_t, std::size_t to) { return to == 0 ? 1009 : 0; });
  add([](std::size_t from, std::size_t to) { return from == to ? 77 + from : 0; });
  add([&](std::size_t from, std::size_t to) { return to == (from + 1) % ranks ? slot + 3 + from : 0; });
  add([](std::size_t from, std::size_t to) { return from < to ? 211 * to : 0; });
  // So few that they travel beside the comparison; from all ranks, from all but one, and beside blocks whose lengths take more bytes.
  add([](std::size_t, std::size_t) { return 1; });
  add([](std::size_t from, std::size_t to) { return (from + to) % 2; });
  add([](std::size_t from, std::size_t to) { return from == 0 ? 300 + to : (from + to) % 2; });
  add([&](std::size_t from, std::size_t to) { return from == 0 ? (sanitized ? slot / 2 : slot + 70000) + to : (from + to) % 2; });
  // Ranks with very different numbers of steps.
  add([&](std::size_t from, std::size_t to) { return from == 0 ? (sanitized ? slot / 2 : 2 * slot) + to : to == 0 ? 1 : 40 * from + to; });
  return all;
}

// Elements that tell sender, receiver and place.
std::vector<std::int64_t> outgoing(const Matrix& m, int from) {
  std::vector<std::int64_t> x;
  for (std::size_t to = 0; to < m.size(); ++to) {
    for (std::size_t i = 0; i < m[static_cast<std::size_t>(from)][to]; ++i) x.push_back(static_cast<std::int64_t>((i * 16 + to) * 16) + from);
  }
  return x;
}
std::vector<std::int64_t> incoming(const Matrix& m, int to) {
  std::vector<std::int64_t> x;
  for (std::size_t from = 0; from < m.size(); ++from) {
    for (std::size_t i = 0; i < m[from][static_cast<std::size_t>(to)]; ++i) {
      x.push_back(static_cast<std::int64_t>((i * 16 + static_cast<std::size_t>(to)) * 16 + from));
    }
  }
  return x;
}

void exchange(const ProcessGroup& group) {
  const int me = group.rank();
  std::vector<std::int64_t> sized{1, 2, 3};
  for (const Matrix& m : traffic(group.size(), sizeof(std::int64_t))) {
    const auto in = outgoing(m, me);
    const Lengths send = m[static_cast<std::size_t>(me)], receive = column(m, me);
    const auto expected = incoming(m, me);
    std::vector<std::int64_t> out(total(receive), -1);
    all_to_all_v(in, send, out, receive, group);
    ASSERT_EQ(difference(out, expected), "");
    ASSERT_EQ(difference(in, outgoing(m, me)), "") << "the input was written to";
    ASSERT_EQ(all_to_all_v(in, send, sized, group), receive);
    ASSERT_EQ(difference(sized, expected), "");
    std::fill(out.begin(), out.end(), -1);
    all_to_all_v_async(in, send, out, receive, group).wait();
    ASSERT_EQ(difference(out, expected), "");
  }
}

WORLD_TEST(AllToAllV, EveryTrafficIsDelivered) {
  COVERS("TS-26", "TS-27", "W-02");
  exchange(world());
}

WORLD_TEST(AllToAllV, CallsWorkInGroupsOfAnyOrder) {
  COVERS("W-06");
  exchange(*split_group(world(), rank() % 2, -rank()));
  exchange(*new_group({rank()}));
}

WORLD_TEST(AllToAllV, EveryDtypeIsCarriedBitForBit) {
  COVERS("W-04");
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  const Matrix m = traffic(world_size(), 1)[1];
  for (const DType dtype : oracle::every_dtype) {
    const std::size_t size = size_of(dtype);
    auto in = oracle::values(dtype, total(m[me]), me);
    oracle::Bytes out(total(column(m, rank())) * size), expected;
    for (std::size_t r = 0; r < n; ++r) {
      const auto theirs = oracle::values(dtype, total(m[r]), r);
      const auto block = theirs.begin() + static_cast<std::ptrdiff_t>(before(m[r], rank()) * size);
      expected.insert(expected.end(), block, block + static_cast<std::ptrdiff_t>(m[r][me] * size));
    }
    all_to_all_v(line(in, dtype), m[me], line(out, dtype), column(m, rank()));
    ASSERT_TRUE(out == expected) << to_string(dtype);
  }
}

WORLD_TEST(AllToAllV, StridedViewsAreFollowed) {
  COVERS("W-05");
  const auto m = traffic(world_size(), sizeof(std::int64_t))[1];
  const Lengths send = m[static_cast<std::size_t>(rank())], receive = column(m, rank());
  const auto line_in = outgoing(m, rank());
  std::vector<std::int64_t> in(3 * line_in.size()), out(2 * total(receive), -1);
  for (std::size_t i = 0; i < line_in.size(); ++i) in[3 * i] = line_in[i];
  const std::array<std::int64_t, 1> in_shape{static_cast<std::int64_t>(line_in.size())}, in_strides{3},
      out_shape{static_cast<std::int64_t>(total(receive))}, out_strides{-2};
  all_to_all_v(TensorView(in.data(), DType::int64, in_shape, in_strides), send,
               TensorView(out.data() + out.size() - 2, DType::int64, out_shape, out_strides), receive);
  const auto expected = incoming(m, rank());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(out[out.size() - 2 - 2 * i], expected[i]);
    ASSERT_EQ(out[out.size() - 1 - 2 * i], -1);
  }
}

WORLD_TEST(AllToAllV, AllToAllVRefusesWrongCounts) {
  const auto n = static_cast<std::size_t>(world_size());
  const auto me = static_cast<std::size_t>(rank());
  std::vector<float> in(2 * n), out(2 * n);
  const Lengths two(n, 2);
  EXPECT_THROW(all_to_all_v(in, Lengths(n + 1, 2), out, two), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, two, out, Lengths(n + 1, 2)), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, Lengths(n, 1), out, two), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, two, out, Lengths(n, 3)), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, std::vector<int>(n, -2), out, two), InvalidArgument);
  Lengths other = two;
  std::vector<float> longer(2 * n + 1);
  other[me] = 3;  // what goes to oneself is what comes from oneself
  EXPECT_THROW(all_to_all_v(in, two, longer, other), InvalidArgument);
  std::vector<float> sized;
  EXPECT_THROW(all_to_all_v(in, Lengths(n, 3), sized), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, Lengths(n + 1, 2), sized), InvalidArgument);
  EXPECT_THROW(all_to_all_v(in, two, in), InvalidArgument);
  if (n > 1) {
    EXPECT_THROW(all_to_all_v(in, two, in, two), InvalidArgument);
  }
  expect_usable();
}

// Rule 6: what one sends is what the other expects; if not, every rank says so, also those whose own counts fit, and names the two and both numbers.
MANY_TEST(AllToAllV, CountsThatDoNotFitAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      if (from == to) continue;
      Lengths send(n, 10), receive(n, 10);
      if (static_cast<std::size_t>(rank()) == to) receive[from] = 13;
      std::vector<float> in(total(send), 1.0F), out(total(receive), -1.0F);
      const auto error = thrown_by<Mismatch>([&] { all_to_all_v(in, send, out, receive); });
      const std::string expected = "rank " + std::to_string(from) + " sends 10 elements to rank " + std::to_string(to) + ", which expects 13";
      EXPECT_NE(error.message().find(expected), std::string::npos) << error.what();
      EXPECT_EQ(out, std::vector<float>(total(receive), -1.0F));
      if (to % 3 == 0) expect_usable();
    }
  }
  expect_usable();
}

// Counts of one call may travel in different ways: they are compared all the same.
MANY_TEST(AllToAllV, CountsFarApartAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (const std::size_t far : {std::size_t{0}, std::size_t{257}, std::size_t{65537}}) {
    Lengths send(n, 1), receive(n, 1);
    if (rank() == 1) receive[0] = far;
    std::vector<std::int16_t> in(n, 1), out(total(receive), -1);
    const auto error = thrown_by<Mismatch>([&] { all_to_all_v(in, send, out, receive); });
    EXPECT_NE(error.message().find("rank 0 sends 1 elements to rank 1, which expects " + std::to_string(far)), std::string::npos) << error.what();
    EXPECT_EQ(out, std::vector<std::int16_t>(total(receive), -1));
    expect_usable();
  }
}

// Rule 6: two that differ do not wait for a third one that is late, and it meets the same error.
WORLD_TEST_IN((Worlds{.at_least = 4}), AllToAllV, AMismatchDoesNotWaitForALateRank) {
  if (world().backend() != "native") GTEST_SKIP() << "elsewhere counts are compared when all ranks have come";
  const auto n = static_cast<std::size_t>(world_size());
  for (int late = 0; late < world_size(); ++late) {
    const auto a = static_cast<std::size_t>((late + 1) % world_size()), b = static_cast<std::size_t>((late + 2) % world_size());
    Lengths send(n, 3), receive(n, 3);
    if (static_cast<std::size_t>(rank()) == a) send[b] = 4;
    std::vector<float> in(total(send)), out(total(receive));
    std::array<int, 1> go{};
    if (rank() == late) {
      for (int r = 0; r < world_size(); ++r) {
        if (r != late) recv(go, r);
      }
      EXPECT_THROW(all_to_all_v(in, send, out, receive), Mismatch);
    } else {
      EXPECT_THROW(all_to_all_v(in, send, out, receive), Mismatch);
      unisono::send(go, late);
    }
    expect_usable();
  }
}

MANY_TEST(AllToAllV, DtypesThatDifferAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int odd = 0; odd < world_size(); ++odd) {
    const Lengths one(n, 1);
    std::vector<float> x(n), out{7.0F};
    std::vector<std::uint32_t> y(n), other{7};
    if (rank() == odd) EXPECT_THROW(all_to_all_v(y, one, other), Mismatch);
    else EXPECT_THROW(all_to_all_v(x, one, out), Mismatch);
    EXPECT_EQ(out, std::vector<float>{7.0F});
    std::vector<float> known(n, -1.0F);
    std::vector<std::uint32_t> known_other(n, 9);
    if (rank() == odd) EXPECT_THROW(all_to_all_v(y, one, known_other, one), Mismatch);
    else EXPECT_THROW(all_to_all_v(x, one, known, one), Mismatch);
    EXPECT_EQ(known, std::vector<float>(n, -1.0F));
    expect_usable();
  }
}

// C9: blocking on some ranks and asynchronous on others, in the order of the calls.
MANY_TEST(AllToAllV, BlockingAndAsynchronousCallsAreAMismatch) {
  const auto n = static_cast<std::size_t>(world_size());
  for (int round = 0; round < 10; ++round) {
    Lengths send(n, 2), receive(n, 2);
    const auto odd = static_cast<std::size_t>(round) % n;
    if (static_cast<std::size_t>(rank()) == odd) receive[(odd + 1) % n] = 1;
    std::vector<double> in(total(send), rank()), out(total(receive), -1.0), after(2 * n);
    if ((rank() + round) % 2 == 0) {
      EXPECT_THROW(all_to_all_v(in, send, out, receive), Mismatch);
      all_to_all_v(in, send, after, send);
    } else {
      Work wrong = all_to_all_v_async(in, send, out, receive);
      Work right = all_to_all_v_async(in, send, after, send);
      EXPECT_THROW(wrong.wait(), Mismatch);
      right.wait();
    }
    EXPECT_EQ(out, std::vector<double>(total(receive), -1.0));
    for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], static_cast<double>(i / 2));
  }
}

}  // namespace

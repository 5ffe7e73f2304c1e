#include <algorithm>
#include <array>
#include <set>

#include "../unit/kernels/oracle.h"
#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

template <class F>
void for_each_peer(F&& f) {
  for (int r = 0; r < world_size(); ++r) {
    if (r != rank()) f(r);
  }
}

// All send to all, and only then does anybody receive; lengths and contents tell every pair apart.
MANY_TEST(Send, AllMaySendBeforeAllReceive) {
  COVERS("T-23", "W-10");
  const auto n = static_cast<std::size_t>(world_size());
  const auto length = [&](int from, int to) { return static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to) + 1; };
  for_each_peer([&](int to) {
    const auto x = values<float>(length(rank(), to), 8 * rank() + to);
    send(x, to);
  });
  for_each_peer([&](int from) {
    std::vector<float> x(length(from, rank()));
    EXPECT_EQ(recv(x, from), from);
    EXPECT_EQ(difference(x, values<float>(length(from, rank()), 8 * from + rank())), "");
  });
}

// The largest messages that need no matching receive, several in a row to the same receiver, and their order.
MANY_TEST(Send, ManyMessagesOf64KiBAreSentBeforeAnyReceive) {
  constexpr std::size_t count = (std::size_t{64} << 10) / sizeof(float);
  constexpr int messages = sanitized ? 3 : 7;
  for (int i = 0; i < messages; ++i) {
    for_each_peer([&](int to) {
      auto x = values<float>(count, rank() + i);
      send(x, to);
      std::fill(x.begin(), x.end(), -1.0F);  // the buffer is the caller's again
    });
  }
  for_each_peer([&](int from) {
    for (int i = 0; i < messages; ++i) {
      std::vector<float> x(count);
      recv(x, from);
      ASSERT_EQ(difference(x, values<float>(count, from + i)), "") << "message " << i << " from " << from;
    }
  });
}

// Rank 0 isends to every rank something of another size, posts its receives, and waits in order.
MANY_TEST(Isend, EveryRankSendsToEveryRank) {
  COVERS("T-21", "T-22", "T-17", "T-18");
  const int n = world_size();
  if (rank() == 0) {
    std::vector<std::vector<double>> out, in;
    std::vector<Work> works;
    for (int r = 1; r < n; ++r) {
      out.push_back(values<double>(static_cast<std::size_t>(10 * r), r));
      in.emplace_back(static_cast<std::size_t>(10 * r));
    }
    for (int r = 1; r < n; ++r) works.push_back(irecv(in[static_cast<std::size_t>(r - 1)], r));
    for (int r = 1; r < n; ++r) works.push_back(isend(out[static_cast<std::size_t>(r - 1)], r));
    for (Work& work : works) {
      work.wait();
      EXPECT_TRUE(work.is_completed());
    }
    for (int r = 1; r < n; ++r) {
      EXPECT_EQ(works[static_cast<std::size_t>(r - 1)].source_rank(), r);
      auto expected = values<double>(static_cast<std::size_t>(10 * r), r);
      for (auto& x : expected) x += 0.5;
      EXPECT_EQ(difference(in[static_cast<std::size_t>(r - 1)], expected), "");
    }
  } else {
    std::vector<double> x(static_cast<std::size_t>(10 * rank()));
    Work received = irecv(x, 0);
    received.wait();
    EXPECT_EQ(received.source_rank(), 0);
    for (auto& e : x) e += 0.5;
    send(x, 0);
  }
}

// The ranks may come in any order; together they are all.
MANY_TEST(Recv, AReceiveTakesMessagesFromAnybody) {
  COVERS("T-25", "W-10");
  if (on_an_engine()) COVERS("B-24");
  const int n = world_size();
  for (int round = 0; round < 5; ++round) {
    if (rank() == 0) {
      std::set<int> senders;
      for (int i = 1; i < n; ++i) {
        std::array<int, 2> x{};
        const int sender = recv(x, any_source);
        EXPECT_EQ(x, (std::array<int, 2>{sender, round}));
        senders.insert(sender);
      }
      EXPECT_EQ(senders.size(), static_cast<std::size_t>(n - 1));
      for (int r = 1; r < n; ++r) send(std::array{r}, r);
    } else {
      send(std::array{rank(), round}, 0);
      std::array<int, 1> answer{};
      Work work = irecv(answer, any_source);
      work.wait();
      EXPECT_EQ(work.source_rank(), 0);
      EXPECT_EQ(answer[0], rank());
    }
  }
}

// Messages are matched by tag, and those of one tag keep their order.
MANY_TEST(Recv, TagsAreReceivedInAnyOrder) {
  COVERS("K-09");
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  const std::array tags{1, 2, 3, 2, 1, 3, -7};
  for (int i = 0; i < 7; ++i) {
    const int tag = tags[static_cast<std::size_t>(i)];
    send(std::array{tag, i}, next, world(), {.tag = tag});
  }
  const auto take = [&](int tag) {
    std::array<int, 2> x{};
    recv(x, previous, world(), {.tag = tag});
    EXPECT_EQ(x[0], tag);
    return x[1];
  };
  EXPECT_EQ(take(-7), 6);
  EXPECT_EQ(take(3), 2);
  EXPECT_EQ(take(1), 0);
  EXPECT_EQ(take(2), 1);
  EXPECT_EQ(take(2), 3);
  EXPECT_EQ(take(3), 5);
  EXPECT_EQ(take(1), 4);
}

// The order of messages of one pair is kept, whatever mixture of calls makes and takes them.
MANY_TEST(Recv, ReceivesKeepTheOrder) {
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  constexpr int messages = sanitized ? 100 : 400;
  std::vector<Work> works;
  std::vector<std::vector<int>> out, in;
  for (int i = 0; i < messages; ++i) out.push_back(values<int>(static_cast<std::size_t>(1 + i * 37 % 2000), i % 8));
  for (int i = 0; i < messages; ++i) in.emplace_back(out[static_cast<std::size_t>(i)].size());
  for (int i = 0; i < messages; ++i) {
    const auto& x = out[static_cast<std::size_t>(i)];
    if (i % 3 == 0) send(x, next);
    else works.push_back(isend(x, next));
  }
  for (int i = 0; i < messages; ++i) {
    auto& x = in[static_cast<std::size_t>(i)];
    if (i % 4 == 0) recv(x, previous);
    else works.push_back(irecv(x, previous));
  }
  wait_all(works);
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(difference(in[i], out[i]), "") << "message " << i;
}

MANY_TEST(Send, MessagesMayBeEmpty) {
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  const std::vector<float> nothing;
  std::vector<float> empty;
  for (int i = 0; i < 20; ++i) send(nothing, next);
  send(std::array{5.0F}, next);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(recv(empty, previous), previous);
  std::array<float, 1> last{};
  recv(last, previous);
  EXPECT_EQ(last[0], 5.0F);
}

constexpr std::size_t large = (std::size_t{10} << 20) / sizeof(float) + 3;  // 10 MiB and a bit

MANY_TEST(Send, LargeMessagesArrive) {
  const int n = world_size();
  if (sanitized && n > 3) return;
  if (rank() == 0) {
    const auto x = values<float>(large, 1);
    for (int r = 1; r < n; ++r) send(x, r);
    for (int r = 1; r < n; ++r) isend(x, r).wait();
  } else {
    for (int i = 0; i < 2; ++i) {
      std::vector<float> x(large);
      if (i == 0) recv(x, 0);
      else irecv(x, 0).wait();
      ASSERT_EQ(difference(x, values<float>(large, 1)), "");
    }
  }
}

// Two large messages that meet, around a ring, in one call.
MANY_TEST(SendRecv, LargeMessagesPassAroundARing) {
  const int n = world_size();
  if (sanitized && n > 3) return;
  const int next = (rank() + 1) % n;
  const int previous = (rank() + n - 1) % n;
  const auto out = values<float>(large, rank());
  std::vector<float> in(large);
  EXPECT_EQ(send_recv(out, next, in, previous), previous);
  EXPECT_EQ(difference(in, values<float>(large, previous)), "");
}

// A large message under way does not keep collectives from going on, nor the other way round.
MANY_TEST(Isend, MessagesTravelBesideCollectives) {
  const int n = world_size();
  const int next = (rank() + 1) % n;
  const int previous = (rank() + n - 1) % n;
  const auto out = values<float>(large / 8, rank());
  std::vector<float> in(large / 8);
  Work sent = isend(out, next);
  expect_usable();
  Work sum_done;
  auto x = values<float>(100, rank());
  sum_done = all_reduce_async(x);
  Work received = irecv(in, previous);
  expect_usable();
  sent.wait();
  received.wait();
  sum_done.wait();
  EXPECT_EQ(difference(in, values<float>(large / 8, previous)), "");
  EXPECT_EQ(difference(x, sums<float>(100, n)), "");
}

// Issued together, large ones in both directions; nothing is issued if one of them is wrong.
MANY_TEST(Batch, ABatchHasSendsAndReceives) {
  COVERS("TS-31");
  const int n = world_size();
  constexpr std::size_t count = 40000;
  std::vector<std::vector<float>> out, in;
  std::vector<P2POp> operations;
  for (int r = 0; r < n; ++r) {
    out.push_back(values<float>(count, 8 * rank() + r));
    in.emplace_back(count);
  }
  for_each_peer([&](int r) { operations.push_back(P2POp::send(out[static_cast<std::size_t>(r)], r)); });
  for_each_peer([&](int r) { operations.push_back(P2POp::recv(in[static_cast<std::size_t>(r)], r)); });
  auto works = batch(operations);
  ASSERT_EQ(works.size(), operations.size());
  wait_all(works);
  for_each_peer([&](int r) { EXPECT_EQ(difference(in[static_cast<std::size_t>(r)], values<float>(count, 8 * r + rank())), ""); });

  operations.clear();
  operations.push_back(P2POp::send(out[0], (rank() + 1) % n));
  operations.push_back(P2POp::recv(in[0], rank()));
  EXPECT_THROW(static_cast<void>(batch(operations)), InvalidArgument);
}

MANY_TEST(Send, StridedViewsAreFollowed) {
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  for (const std::int64_t rows : {5L, 60000L}) {
    const auto length = static_cast<std::size_t>(rows);
    const std::vector<std::int64_t> shape{rows}, column{2}, reversed{-1};
    auto matrix = values<float>(2 * length, rank());
    std::vector<float> line(length, -1.0F);
    Work received = irecv(TensorView(line.data() + length - 1, DType::float32, shape, reversed), previous);
    send(TensorView(matrix.data() + 1, DType::float32, shape, column), next);
    received.wait();
    for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(line[length - 1 - i], value<float>(previous, 2 * i + 1));
  }
}

MANY_TEST(Send, EveryDtypeIsCarriedBitForBit) {
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  for (const DType dtype : oracle::every_dtype) {
    auto x = oracle::values(dtype, 37, static_cast<std::uint64_t>(rank()));
    oracle::Bytes y(x.size());
    send(TensorView(x.data(), dtype, 37), next);
    recv(TensorView(y.data(), dtype, 37), previous);
    ASSERT_TRUE(y == oracle::values(dtype, 37, static_cast<std::uint64_t>(previous))) << to_string(dtype);
  }
}

// Another length or dtype is Mismatch where it arrives; the message is gone, the buffer is as it was, and the next one is right.
MANY_TEST(Recv, AnotherLengthOrDtypeIsRefused) {
  COVERS("T-24", "K-10");
  const int next = (rank() + 1) % world_size();
  const int previous = (rank() + world_size() - 1) % world_size();
  const auto refused = [&](auto sent, auto received, const char* what) {
    const auto before = received;
    Work sending = isend(sent, next);
    const auto error = thrown_by<Mismatch>([&] { recv(received, previous); });
    EXPECT_TRUE(received == before) << what;
    EXPECT_EQ(error.operation(), "recv");
    EXPECT_EQ(error.group(), "world");
    EXPECT_EQ(error.rank(), rank());
    EXPECT_EQ(error.culprit(), previous);
    EXPECT_GT(error.sequence(), 0U);
    EXPECT_FALSE(error.host().empty());
    EXPECT_FALSE(error.hint().empty());
    sending.wait();
    std::array<int, 1> x{};
    send(std::array{what[0] + rank()}, next);
    recv(x, previous);
    EXPECT_EQ(x[0], what[0] + previous);
    expect_usable();
  };
  refused(std::vector<float>(10, 1.0F), std::vector<float>(9, 2.0F), "shorter");
  refused(std::vector<float>(10, 1.0F), std::vector<float>(11, 2.0F), "longer");
  refused(std::vector<float>(10, 1.0F), std::vector<float>{}, "empty");
  refused(std::vector<float>{}, std::vector<float>(1, 2.0F), "nothing sent");
  refused(std::vector<float>(10, 1.0F), std::vector<int>(10, 2), "dtype of the same size");
  refused(std::vector<float>(10, 1.0F), std::vector<double>(10, 2), "dtype of another size");
  refused(std::vector<float>(10, 1.0F), std::vector<double>(5, 2), "dtype of another size, as many bytes");
}

// A sender that is still sending is told as well: a blocking send of a large message ends.
MANY_TEST(Recv, AnotherLengthOfALargeMessageIsRefused) {
  const int n = world_size();
  if (sanitized && n > 3) return;
  for (int tag = 0; tag < 2; ++tag) {
    if (rank() == 0) {
      const auto x = values<float>(large / 4, 1);
      for (int r = 1; r < n; ++r) send(x, r, world(), {.tag = tag});
    } else {
      std::vector<float> x(7, 3.0F);
      if (tag == 0) {
        EXPECT_THROW(recv(x, 0), Mismatch);
      } else {
        Work work = irecv(x, 0, world(), {.tag = 1});
        EXPECT_THROW(work.wait(), Mismatch);
        EXPECT_NE(work.exception(), nullptr);
      }
      EXPECT_EQ(x, std::vector<float>(7, 3.0F));
    }
    expect_usable();
  }
}

// A receive that nobody answers ends at its deadline.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 3, .poisons = true}), Recv, AReceiveEndsAtItsDeadline) {
  COVERS("K-09");
  barrier();
  std::array<int, 1> x{};
  const int previous = (rank() + world_size() - 1) % world_size();
  const auto error = thrown_by<Timeout>([&] { recv(x, previous, world(), {.timeout = 500ms}); });
  EXPECT_EQ(error.missing().size(), 1U);
  EXPECT_EQ(error.operation(), "recv");
}

}  // namespace

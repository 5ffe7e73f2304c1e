// Values as messages, and messages of which the receiver does not know the length, the tag or the sender.
#include <algorithm>
#include <array>
#include <complex>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

int next_rank() { return (rank() + 1) % world_size(); }
int previous_rank() { return (rank() + world_size() - 1) % world_size(); }

MANY_TEST(Value, AValueIsSentAndReturned) {
  send(7 + rank(), next_rank());
  EXPECT_EQ(recv<int>(previous_rank()), 7 + previous_rank());
  send(std::complex<double>(rank(), -1), next_rank(), world(), {.tag = 3});
  EXPECT_EQ(recv<std::complex<double>>(previous_rank(), world(), {.tag = 3}), std::complex<double>(previous_rank(), -1));
  const bool odd = rank() % 2 == 1;
  send(odd, next_rank());
  EXPECT_EQ(recv<bool>(previous_rank()), previous_rank() % 2 == 1);
  EXPECT_EQ(send_recv(10.5F * static_cast<float>(rank()), next_rank(), previous_rank()), 10.5F * static_cast<float>(previous_rank()));
}

MANY_TEST(Value, AValueIsReceivedIntoAVariable) {
  double x = 0.5 + rank(), y = -1;
  send(x, next_rank());
  EXPECT_EQ(recv(y, previous_rank()), previous_rank());
  EXPECT_EQ(y, 0.5 + previous_rank());
  y = -1;
  Work received = irecv(y, any_source, world(), {.tag = 5});
  Work sent = isend(x, next_rank(), world(), {.tag = 5});
  sent.wait();
  received.wait();
  EXPECT_EQ(received.source_rank(), previous_rank());
  EXPECT_EQ(y, 0.5 + previous_rank());
  y = -1;
  auto works = batch({P2POp::send(x, next_rank()), P2POp::recv(y, previous_rank())});
  wait_all(works);
  EXPECT_EQ(y, 0.5 + previous_rank());
}

MANY_TEST(Value, AReceiveWithoutASourceTakesTheMessageOfAnybody) {
  COVERS("T-25", "B-24");
  const auto senders = [](auto&& receive) {
    std::set<int> all;
    for (int i = 1; i < world_size(); ++i) all.insert(receive());
    EXPECT_EQ(all.size(), static_cast<std::size_t>(world_size() - 1));
    barrier();  // so that nobody's next message comes in between
  };
  if (rank() != 0) {
    send(100 + rank(), 0);
    barrier();
    send(std::array{rank(), 2 * rank()}, 0);
    barrier();
    send(std::vector<int>(static_cast<std::size_t>(rank()), rank()), 0);
    return barrier();
  }
  senders([] {
    int x = -1;
    const int sender = recv(x);
    EXPECT_EQ(x, 100 + sender);
    return sender;
  });
  senders([] {
    std::array<int, 2> x{};
    Work work = irecv(x);
    work.wait();
    EXPECT_EQ(x, (std::array{work.source_rank(), 2 * work.source_rank()}));
    return work.source_rank();
  });
  senders([] {
    const auto x = recv<std::vector<int>>();
    EXPECT_EQ(x, std::vector<int>(x.size(), static_cast<int>(x.size())));
    return x.front();
  });
}

// A value is a message of one element: the other side may have a buffer for it. Another dtype is Mismatch.
MANY_TEST(Value, AValueIsAMessageOfOneElement) {
  send(std::array{rank()}, next_rank());
  EXPECT_EQ(recv<int>(previous_rank()), previous_rank());
  send(rank(), next_rank());
  std::array<int, 1> x{};
  recv(x, previous_rank());
  EXPECT_EQ(x[0], previous_rank());
  send(rank(), next_rank());
  EXPECT_THROW(static_cast<void>(recv<float>(previous_rank())), Mismatch);
  send(std::array{rank(), 1}, next_rank());
  EXPECT_THROW(static_cast<void>(recv<int>(previous_rank())), Mismatch);
  EXPECT_THROW(send(1, rank()), InvalidArgument);
}

// The vector becomes as long as the message, whether that waits already, is still under way, or is empty.
MANY_TEST(RecvResized, LengthsMayBeKnownToTheSenderOnly) {
  const std::vector<std::size_t> lengths{0, 1, 37, 5000, (std::size_t{2} << 20) / sizeof(float) + 3};
  std::vector<std::vector<float>> out;
  std::vector<Work> works;
  for (const std::size_t n : lengths) out.push_back(values<float>(n + static_cast<std::size_t>(n > 0 ? rank() : 0), rank()));
  for (const auto& x : out) works.push_back(isend(x, next_rank()));
  std::vector<float> x{1, 2, 3};
  for (const std::size_t n : lengths) {
    const std::size_t expected = n + static_cast<std::size_t>(n > 0 ? previous_rank() : 0);
    const MessageInfo info = n % 2 == 0 ? recv_resized(x, previous_rank()) : recv_resized(x, any_source);
    EXPECT_EQ(info, (MessageInfo{.source = previous_rank(), .tag = 0, .dtype = DType::float32, .count = expected}));
    ASSERT_EQ(difference(x, values<float>(expected, previous_rank())), "");
  }
  wait_all(works);
  send(out[2], next_rank());
  const std::size_t expected = 37 + static_cast<std::size_t>(previous_rank());
  EXPECT_EQ(difference(recv<std::vector<float>>(previous_rank()), values<float>(expected, previous_rank())), "");
}

// As with recv, what does not fit is gone, and the vector is as it was.
MANY_TEST(RecvResized, AnotherDtypeIsRefused) {
  send(std::array{1, 2, 3}, next_rank());
  send(rank(), next_rank());
  std::vector<float> x{5, 6};
  const auto error = thrown_by<Mismatch>([&] { recv_resized(x, previous_rank()); });
  EXPECT_EQ(error.operation(), "recv");
  EXPECT_EQ(error.culprit(), previous_rank());
  EXPECT_EQ(x, (std::vector<float>{5, 6}));
  EXPECT_EQ(recv<int>(previous_rank()), previous_rank());
}

MANY_TEST(Probe, AProbeTellsWhatTheNextReceiveTakes) {
  send(std::array{1.5, 2.5}, next_rank(), world(), {.tag = 4});
  send(std::array<std::int16_t, 3>{1, 2, 3}, next_rank(), world(), {.tag = 9});
  const MessageInfo nine = probe(previous_rank(), world(), {.tag = 9});
  EXPECT_EQ(nine, (MessageInfo{.source = previous_rank(), .tag = 9, .dtype = DType::int16, .count = 3}));
  EXPECT_EQ(nine.bytes(), 6U);
  EXPECT_EQ(probe(any_source, world(), {.tag = 9}), nine);  // it is still there
  const MessageInfo first = probe(any_source, world(), {.tag = any_tag});
  EXPECT_EQ(first, (MessageInfo{.source = previous_rank(), .tag = 4, .dtype = DType::float64, .count = 2}));
  EXPECT_EQ(try_probe(previous_rank(), world(), {.tag = 4}), first);
  EXPECT_EQ(try_probe(previous_rank(), world(), {.tag = 5}), std::nullopt);
  std::vector<double> x(first.count);
  recv(x, first.source, world(), {.tag = first.tag});
  EXPECT_EQ(x, (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(probe(previous_rank(), world(), {.tag = any_tag}), nine);
  EXPECT_EQ(recv<std::vector<std::int16_t>>(previous_rank(), world(), {.tag = any_tag}), (std::vector<std::int16_t>{1, 2, 3}));
}

// A message that an earlier irecv waits for is not the next one.
MANY_TEST(Probe, AProbeLeavesWhatWasAskedForBefore) {
  int first = -1;
  Work received = irecv(first, previous_rank());
  barrier();
  EXPECT_EQ(try_probe(previous_rank()), std::nullopt);
  barrier();
  send(rank(), next_rank());
  send(std::array{rank(), rank()}, next_rank());
  EXPECT_EQ(probe(previous_rank()).count, 2U);
  received.wait();
  EXPECT_EQ(first, previous_rank());
  EXPECT_EQ(recv<std::vector<int>>(previous_rank()), (std::vector<int>{previous_rank(), previous_rank()}));
}

// A message that is too large to be there as a whole is found by its beginning.
MANY_TEST(Probe, AProbeFindsLargeMessagesUnderWay) {
  const auto out = values<float>((std::size_t{1} << 20) + 5, rank());
  Work sent = isend(out, next_rank());
  std::optional<MessageInfo> info;
  while (!info) info = try_probe(any_source);
  EXPECT_EQ(info->count, out.size());
  std::vector<float> x(info->count);
  recv(x, info->source);
  EXPECT_EQ(difference(x, values<float>(out.size(), previous_rank())), "");
  sent.wait();
}

MANY_TEST(Probe, AProbeFindsObjects) {
  send_object(std::string("hello"), next_rank(), world(), {.tag = 6});
  const MessageInfo info = probe(any_source, world(), {.tag = any_tag});
  EXPECT_TRUE(info.is_object);
  EXPECT_EQ(info.tag, 6);
  EXPECT_EQ(recv_object<std::string>(info.source, world(), {.tag = any_tag}), "hello");
}

// Rank 0 serves whoever comes, by what the tag says.
MANY_TEST(AnyTag, TheTagOfAnyTagIsTold) {
  const int n = world_size();
  if (rank() == 0) {
    std::multiset<int> tags;
    for (int i = 1; i < n; ++i) {
      double x = 0;
      Work work = irecv(x, any_source, world(), {.tag = any_tag});
      work.wait();
      EXPECT_EQ(work.tag(), 100 + work.source_rank());
      EXPECT_EQ(x, 0.25 * work.tag());
      tags.insert(work.tag());
    }
    barrier();
    for (int i = 1; i < n; ++i) {
      std::vector<float> x;
      const MessageInfo info = recv_resized(x, any_source, world(), {.tag = any_tag});
      EXPECT_EQ(info.tag, -info.source);
      EXPECT_EQ(x, std::vector<float>(static_cast<std::size_t>(info.source), 1.0F));
      tags.insert(info.tag);
    }
    for (int r = 1; r < n; ++r) {
      EXPECT_EQ(tags.count(100 + r), 1U);
      EXPECT_EQ(tags.count(-r), 1U);
    }
  } else {
    send(0.25 * (100 + rank()), 0, world(), {.tag = 100 + rank()});
    barrier();
    send(std::vector<float>(static_cast<std::size_t>(rank()), 1.0F), 0, world(), {.tag = -rank()});
  }
}

// Messages of one sender come in the order in which they were sent, whatever their tags.
MANY_TEST(AnyTag, AnyTagKeepsTheOrder) {
  for (const int tag : {3, 1, 2, 1}) send(10 * tag, next_rank(), world(), {.tag = tag});
  EXPECT_EQ(recv<int>(previous_rank(), world(), {.tag = 2}), 20);
  for (const int tag : {3, 1, 1}) {
    int x = 0;
    Work work = irecv(x, previous_rank(), world(), {.tag = any_tag});
    work.wait();
    EXPECT_EQ(work.tag(), tag);
    EXPECT_EQ(x, 10 * tag);
  }
}

WORLD_TEST(AnyTag, AnyTagIsForReceivesOnly) {
  int x = 0;
  EXPECT_THROW(send(x, next_rank(), world(), {.tag = any_tag}), InvalidArgument);
  EXPECT_THROW(static_cast<void>(all_reduce(x, ReduceOp::sum, world(), {.tag = any_tag})), InvalidArgument);
  EXPECT_THROW(send(x, next_rank(), world(), {.tag = std::numeric_limits<int>::min()}), InvalidArgument);
  EXPECT_THROW(static_cast<void>(probe(rank())), InvalidArgument);
  EXPECT_THROW(static_cast<void>(try_probe(world_size())), InvalidArgument);
}

WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 3, .poisons = true}), Probe, AProbeEndsAtItsDeadline) {
  barrier();
  const auto error = thrown_by<Timeout>([&] { static_cast<void>(probe(previous_rank(), world(), {.timeout = 500ms})); });
  EXPECT_EQ(error.missing().size(), 1U);
  EXPECT_EQ(error.operation(), "probe");
}

// A rank that probes again and again learns of a peer that has given up.
WORLD_TEST_IN((Worlds{.at_least = 2, .poisons = true}), Probe, AProbeEndsWithItsPeer) {
  if (rank() == 0) {
    world().abort("had enough");
  } else {
    const auto error = thrown_by<PeerFailed>([] {
      while (!try_probe(0)) {
      }
    });
    EXPECT_EQ(error.culprit(), 0);
  }
}

}  // namespace

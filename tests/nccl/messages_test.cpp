// Messages of device memory.

#include <vector>

#include "fake_ranks.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

// The tag of a message of device memory is told by its receive; how long it is, nobody tells before.
TEST(Messages, MessagesOfAnyTagAreReceived) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me, 7});
    if (me == 0) {
      isend(x.view(), 1, group, {.tag = -5}).wait();
      return;
    }
    const auto refused = thrown_by<Unsupported>([&] { static_cast<void>(probe(any_source, group, {.tag = any_tag})); });
    EXPECT_EQ(refused.culprit(), 0);
    Work work = irecv(x.view(), any_source, group, {.tag = any_tag});
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_EQ(work.tag(), -5);
    EXPECT_EQ(work.source_rank(), 0);
    EXPECT_EQ(x.values(), (std::vector<int>{0, 7}));
  });
}

TEST(Messages, MessagesAreReceivedByTagInAnyOrderAndBothDirections) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int n = 3, me = group.rank(), next = (me + 1) % n, before = (me + n - 1) % n;
    const DeviceArray<int> a(me, {me, 1}), b(me, {me, 2, 2}), from_a(me, 2), from_b(me, 3);
    Work send_a = isend(a.view(), next, group, {.tag = 1}), send_b = isend(b.view(), next, group, {.tag = 2});
    // The second one is taken first.
    Work recv_b = irecv(from_b.view(), before, group, {.tag = 2});
    Work recv_a = irecv(from_a.view(), before, group, {.tag = 1});
    for (Work* work : {&send_a, &send_b, &recv_a, &recv_b}) EXPECT_TRUE(work->wait_for(20s));
    EXPECT_EQ(from_a.values(), (std::vector<int>{before, 1}));
    EXPECT_EQ(from_b.values(), (std::vector<int>{before, 2, 2}));
    EXPECT_EQ(recv_a.source_rank(), before);
  });
}

TEST(Messages, BlockingReceivesTakeFromAnybody) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int me = group.rank();
    if (me != 0) {
      const DeviceArray<int> x(me, {me});
      send(x.view(), 0, group);
    } else {
      int sum = 0;
      for (int i = 0; i < 2; ++i) {
        const DeviceArray<int> x(me, 1);
        const int source = recv(x.view(), any_source, group);
        fake::synchronize();
        EXPECT_EQ(x.values()[0], source);
        sum += source;
      }
      EXPECT_EQ(sum, 3);
    }
    // Host messages go beside them.
    std::vector<int> host{me};
    if (me == 1) send(host, 2, group);
    if (me == 2) {
      recv(host, 1, group);
      EXPECT_EQ(host[0], 1);
    }
  });
}

TEST(Messages, AReceiveThatHasNoneIsTakenBack) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> unwanted(me, {8, 8}), x(me, {me, 7});
    if (me == 1) {
      Work work = irecv(unwanted.view(), 0, group);
      EXPECT_TRUE(work.cancel());
      EXPECT_TRUE(work.wait_for(20s));
      EXPECT_EQ(work.source_rank(), -1);
    }
    std::vector<int> host{me};
    if (me == 1) send(host, 0, group, {.tag = 3});
    else recv(host, 1, group, {.tag = 3});
    if (me == 0) isend(x.view(), 1, group).wait();
    else EXPECT_EQ(recv(x.view(), 0, group), 0);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{0, 7}));
    EXPECT_EQ(unwanted.values(), (std::vector<int>{8, 8}));
  });
}

TEST(Messages, ManyMessagesPassBetweenTwo) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    std::vector<DeviceArray<int>> out, in;
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      out.emplace_back(me, std::vector<int>{me, i});
      in.emplace_back(me, std::size_t{2});
    }
    for (int i = 0; i < 50; ++i) {
      const auto k = static_cast<std::size_t>(i);
      works.push_back(isend(out[k].view(), 1 - me, group));
      works.push_back(irecv(in[k].view(), 1 - me, group));
    }
    for (Work& work : works) EXPECT_TRUE(work.wait_for(20s));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(in[static_cast<std::size_t>(i)].values(), (std::vector<int>{1 - me, i}));
  });
}

TEST(Messages, MessagesThatDoNotFitAreAMismatchOnBothSides) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me, me, me});
    if (me == 0) {
      const auto error = thrown_by<Mismatch>([&] { send(x.view(), 1, group); });
      EXPECT_NE(std::string(error.what()).find("int32 x 3"), std::string::npos) << error.what();
    } else {
      const DeviceArray<int> other(me, 2);
      const auto error = thrown_by<Mismatch>([&] { recv(other.view(), 0, group); });
      EXPECT_NE(std::string(error.what()).find("rank 0 sent int32 x 3, but the receive is of int32 x 2"), std::string::npos) << error.what();
    }
    if (me == 0) send(x.view(), 1, group);
    else recv(x.view(), 0, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{0, 0, 0}));
  });
}

}  // namespace

// The ring of messages of one host.
#include <algorithm>
#include <cstring>

#include "two_rings.h"

TEST(MessageRing, TheVariableSaysFromWhichSizeOn) {
  TwoRings world("400");
  const Data below = data_of(399 << 10, 1), from = data_of(400 << 10, 2);
  for (int i = 0; i < 2; ++i) {
    const auto sent = world.send(from, 1);
    const auto message = world.second.next(0);
    EXPECT_EQ(world.receive(*message, sent.get()), from);
  }
  ASSERT_EQ(world.reach(), Reach::yes);
  std::uint64_t before = world.written();
  const auto sent = world.send(below, 1);
  EXPECT_GT(world.written(), before);
  auto message = world.second.next(0);
  EXPECT_EQ(world.receive(*message, sent.get()), below);
  before = world.written();
  const auto lent = world.send(from, 1);
  EXPECT_EQ(world.written(), before);
  EXPECT_EQ(world.announced(), 4U);
  message = world.second.next(0);
  EXPECT_EQ(world.receive(*message), from);
}

TEST(MessageRing, ASmallMessageIsOneLine) {
  TwoRings world;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, Envelope::room}) {
    const Data data = data_of(bytes, static_cast<int>(bytes));
    EXPECT_EQ(world.first.try_send(1, {.bytes = bytes, .tag = 3, .kind = 5}, data.data()), MessageRing::Tried::sent);
    const auto message = world.second.next(0);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->header.tag, 3);
    EXPECT_EQ(message->header.kind, 5U);
    EXPECT_EQ(world.receive(*message), data);
  }
  const std::size_t bytes = Envelope::room + 1;
  EXPECT_EQ(world.send(data_of(bytes, 1), 1)->waiting_for(), std::vector<int>{});
  EXPECT_EQ(world.written(), 64U);
  EXPECT_EQ(world.receive(world.second.next(0).value()), data_of(bytes, 1));
}

TEST(MessageRing, NoMoreAreAnnouncedThanThereAreEnvelopes) {
  TwoRings world;
  std::uint64_t sent = 0, received = 0;
  const auto send_all = [&] {
    while (world.first.try_send(1, {.bytes = sizeof sent, .tag = 0, .kind = 0}, &sent) == MessageRing::Tried::sent) ++sent;
  };
  for (int lap = 0; lap < 5; ++lap) {
    send_all();
    EXPECT_GT(sent, received + Envelope::count / 2);
    EXPECT_LE(sent, received + Envelope::count);
    const std::uint64_t until = lap == 4 ? sent : sent - static_cast<std::uint64_t>(lap) * 7;
    for (; received < until; ++received) {
      const auto message = world.second.next(0);
      ASSERT_TRUE(message) << received;
      Data as_bytes(sizeof received);
      std::memcpy(as_bytes.data(), &received, sizeof received);
      ASSERT_EQ(world.receive(*message), as_bytes);
    }
  }
  EXPECT_FALSE(world.second.next(0));
}

TEST(MessageRing, AMessageThatWaitsHoldsUpNoOther) {
  TwoRings world;
  std::vector<AnnouncedMessage> messages;
  const std::size_t sizes[] = {8, 5000, 40, 20'000, 0};
  for (const std::size_t bytes : sizes) {
    EXPECT_EQ(world.first.try_send(1, {.bytes = bytes, .tag = 0, .kind = 0}, data_of(bytes, 9).data()), MessageRing::Tried::sent);
    messages.push_back(world.second.next(0).value());
  }
  EXPECT_FALSE(world.second.next(0));
  for (const std::size_t i : {4, 1, 0, 3, 2}) EXPECT_EQ(world.receive(messages[i]), data_of(sizes[i], 9));
}

TEST(MessageRing, ARingIsUsedWhereOneSideDoesWithoutSingleCopy) {
  for (const bool is_sender : {false, true}) {
    TwoRings world(is_sender ? "off" : "0", is_sender ? "0" : "off");
    for (int i = 0; i < 2; ++i) world.get_ready();
    EXPECT_EQ(world.reach(), is_sender ? Reach::untried : Reach::no);
    const std::uint64_t before = world.written();
    const Data data = data_of(large, 1);
    const auto sent = world.send(data, 1);
    EXPECT_GT(world.written(), before);
  }
}

TEST(MessageRing, ARingIsUsedWhereTheWordIsNotFound) {
  TwoRings world;
  world.segment->member(0).pid = ended_process();
  for (int i = 0; i < 2; ++i) world.get_ready();
  EXPECT_EQ(world.reach(), Reach::no);
}

TEST(MessageRing, ARingKeepsTheOrderOfLargeAndSmall) {
  TwoRings world;
  world.get_ready();
  std::vector<Data> data;
  std::vector<std::unique_ptr<Task>> sends;
  for (int i = 0; i < 6; ++i) {
    data.push_back(data_of(i % 2 == 0 ? large + static_cast<std::size_t>(i) : static_cast<std::size_t>(i), i));
    sends.push_back(world.send(data.back(), i));
  }
  std::vector<AnnouncedMessage> messages;
  while (const auto message = world.second.next(0)) messages.push_back(*message);
  ASSERT_EQ(messages.size(), 6U);
  for (const int i : {3, 4, 0, 5, 1, 2}) {
    EXPECT_EQ(messages[static_cast<std::size_t>(i)].header.tag, i);
    EXPECT_EQ(world.receive(messages[static_cast<std::size_t>(i)]), data[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(sends[static_cast<std::size_t>(i)]->advance());
  }
}

// Messages that the receiver reads out of the sender's memory, and what happens where that cannot be.
#include <sys/mman.h>

#include <chrono>

#include "base/deadline.h"
#include "two_rings.h"
#include "unisono/failure.h"

TEST(LentBuffer, ALentBufferIsReadOnce) {
  LentBuffer word;
  word.lend(0x7fff'1234'5678);
  EXPECT_FALSE(word.take_returned());
  const auto address = word.begin_read();
  ASSERT_EQ(address, std::optional<std::uint64_t>(0x7fff'1234'5678));
  EXPECT_EQ(word.begin_read(), std::nullopt);
  EXPECT_FALSE(word.take_returned());
  EXPECT_TRUE(word.end_read(*address));
  EXPECT_TRUE(word.take_returned());
  EXPECT_FALSE(word.take_returned()) << "it is free again";
}

TEST(LentBuffer, WhatIsTakenBackCountsForNothing) {
  LentBuffer before, meanwhile;
  before.lend(64);
  before.take_back();
  EXPECT_EQ(before.begin_read(), std::nullopt);
  meanwhile.lend(64);
  const auto address = meanwhile.begin_read();
  meanwhile.take_back();
  EXPECT_FALSE(meanwhile.end_read(*address));
}

TEST(MessageRing, ALargeMessageIsReadWhereItLies) {
  TwoRings world;
  world.get_ready();
  EXPECT_EQ(world.reach(), Reach::yes);
  const std::uint64_t before = world.written();
  const Data data = data_of(large, 1);
  const auto sent = world.send(data, 7);
  EXPECT_EQ(world.written(), before);
  EXPECT_EQ(world.announced(), 2U);
  EXPECT_EQ(sent->waiting_for(), std::vector<int>{1});
  const auto message = world.second.next(0);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->header.bytes, large);
  EXPECT_EQ(message->header.tag, 7);
  EXPECT_FALSE(sent->advance()) << "nobody has received it";
  EXPECT_EQ(world.receive(*message), data);  // without the sender
  EXPECT_TRUE(sent->advance());
  EXPECT_TRUE(sent->waiting_for().empty());
}

TEST(MessageRing, ASmallMessageIsReadWhereItLiesIfItsReceiverComes) {
  TwoRings world;
  world.get_ready();
  const std::uint64_t before = world.written();
  const Data data = data_of(base::eager_bytes, 1);
  EXPECT_EQ(world.first.lends(1, data.size()), MessageRing::Lending::now);
  const auto sent = world.send(data, 1);
  const auto message = world.second.next(0);
  EXPECT_EQ(world.receive(message.value()), data);
  EXPECT_EQ(world.written(), before);
  EXPECT_TRUE(sent->advance());
  EXPECT_EQ(world.copies(), 0);
}

TEST(MessageRing, AMessageThatNeedsNoReceiveOutlivesItsSender) {
  for (const bool gives_up : {false, true}) {
    TwoRings world;
    world.get_ready();
    Data data = data_of(base::eager_bytes, 1);
    auto sent = world.send(data, 1);
    if (gives_up) {
      EXPECT_TRUE(sent->detach());
    }
    const base::Deadline deadline(std::chrono::seconds(60));
    while (!sent->advance()) ASSERT_FALSE(deadline.passed());
    sent.reset();
    data.assign(data.size(), 0);
    EXPECT_EQ(world.copies(), 1);
    world.segment->member(0).pid = ended_process();
    EXPECT_EQ(world.receive(world.second.next(0).value()), data_of(base::eager_bytes, 1));
  }
}

TEST(MessageRing, NoMoreAreLentForAMomentThanTheirCopiesHaveRoom) {
  TwoRings world;
  world.get_ready();
  const Data data = data_of(20'000, 1);
  std::vector<AnnouncedMessage> messages;
  for (int i = 0; i < static_cast<int>(RingControl::backed); ++i) {
    EXPECT_EQ(world.first.lends(1, data.size()), MessageRing::Lending::now);
    EXPECT_TRUE(world.send(data, i)->detach());
    messages.push_back(world.second.next(0).value());
  }
  EXPECT_EQ(world.first.lends(1, data.size()), MessageRing::Lending::later);
  const std::uint64_t before = world.written();
  EXPECT_TRUE(world.send(data, 9)->advance());
  EXPECT_GT(world.written(), before);
  messages.push_back(world.second.next(0).value());
  for (const AnnouncedMessage& message : messages) EXPECT_EQ(world.receive(message), data) << message.header.tag;
  EXPECT_EQ(world.first.lends(1, data.size()), MessageRing::Lending::now);
}

TEST(MessageRing, MemoryThatIsReadIsNotTakenBack) {
  TwoRings world;
  world.get_ready();
  const Data data = data_of(20'000, 1);
  const auto sent = world.send(data, 1);
  LentBuffer& word = world.control().lent[0];
  const auto address = word.begin_read();
  ASSERT_TRUE(address);
  EXPECT_FALSE(sent->detach());
  EXPECT_FALSE(sent->advance());
  EXPECT_TRUE(word.end_read(*address));
  EXPECT_TRUE(sent->advance());
}

TEST(MessageRing, MoreAreLentThanThereArePlaces) {
  TwoRings world;
  world.get_ready();
  constexpr int places = static_cast<int>(RingControl::most_lent - RingControl::backed), n = places + 3;
  const Data data = data_of(large + n, 1);
  std::vector<std::unique_ptr<Task>> sends;
  for (int i = 0; i < n; ++i) sends.push_back(world.send(data.data(), large + static_cast<std::size_t>(i), i));
  std::vector<AnnouncedMessage> messages;
  const auto look = [&] {
    while (const auto message = world.second.next(0)) messages.push_back(*message);
  };
  look();
  EXPECT_EQ(messages.size(), static_cast<std::size_t>(places));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(world.receive(messages[i]), Data(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(large + i)));
    for (const auto& sent : sends) sent->advance();
    look();
    ASSERT_EQ(messages[i].header.tag, static_cast<int>(i));
  }
  EXPECT_EQ(messages.size(), static_cast<std::size_t>(n));
  for (const auto& sent : sends) EXPECT_TRUE(sent->advance());
}

TEST(MessageRing, WhatDoesNotFitTheCachesIsLentWhereMessagesGoInBothDirections) {
  using engines::shm::single_copy_rule;
  const Data data = data_of(std::size_t{single_copy_rule().up_to} << 10, 1);
  for (const bool both_ways : {false, true}) {
    const base::Environment none;
    TwoRings world(none, none);
    world.get_ready();
    ASSERT_EQ(world.reach(), Reach::yes);
    const std::uint64_t before = world.written();
    world.first.note_receives(1, both_ways);
    EXPECT_TRUE(world.first.leaves_to_receiver(1, data.size() - 1));
    EXPECT_EQ(world.first.leaves_to_receiver(1, data.size()), both_ways);
    const auto sent = world.send(data, 1);
    EXPECT_EQ(world.written() == before, both_ways);
    Delivery delivery;
    Data to(data.size());
    delivery.to = reinterpret_cast<std::byte*>(to.data());
    const auto message = world.second.next(0).value();
    world.second.deliver(0, message.ticket, message.header, delivery);
    for (const base::Deadline deadline(std::chrono::seconds(60)); !delivery.is_done && !deadline.passed(); sent->advance())
      world.second.advance(0, delivery);
    EXPECT_EQ(to, data);
    EXPECT_TRUE(sent->advance());
  }
}

// A send that waits for a place, or behind another one, is carried on by the sender.
TEST(MessageRing, TheReceiverHasAllOfTheWorkOnlyWithWhatIsAnnounced) {
  TwoRings world;
  EXPECT_FALSE(world.first.leaves_to_receiver(1, large)) << "it has not been tried yet";
  world.get_ready();
  const Data data = data_of(large, 1);
  std::vector<std::unique_ptr<Task>> sends;
  for (std::size_t i = RingControl::backed; i < RingControl::most_lent; ++i) {
    EXPECT_TRUE(world.first.leaves_to_receiver(1, large)) << i;
    sends.push_back(world.send(data, 1));
  }
  EXPECT_FALSE(world.first.leaves_to_receiver(1, large)) << "there is no place";
  sends.push_back(world.send(data, 1));
  EXPECT_EQ(world.receive(world.second.next(0).value()), data);
  EXPECT_TRUE(sends.front()->advance());
  EXPECT_FALSE(world.first.leaves_to_receiver(1, large)) << "another one waits";
  EXPECT_FALSE(world.first.leaves_to_receiver(1, base::eager_bytes)) << "it leaves without a receive";
}

TEST(MessageRing, AMessageThatIsRefusedIsGivenBack) {
  TwoRings world;
  world.get_ready();
  const Data data = data_of(large, 1);
  const auto refused = world.send(data, 1), withdrawn = world.send(data, 2);
  auto message = world.second.next(0);
  Delivery none{};
  world.second.deliver(0, message->ticket, message->header, none);
  world.second.advance(0, none);
  EXPECT_TRUE(none.is_done);
  EXPECT_TRUE(refused->advance());
  message = world.second.next(0);
  Data to(large);
  {
    Delivery delivery;
    delivery.to = reinterpret_cast<std::byte*>(to.data());
    world.second.deliver(0, message->ticket, message->header, delivery);
    EXPECT_FALSE(world.second.withdraw(0, message->ticket, delivery));
  }
  EXPECT_TRUE(withdrawn->advance());
  EXPECT_EQ(to, Data(large));
}

TEST(MessageRing, AReceiveStandsStillWhereItsSenderIsGone) {
  for (const bool has_ended : {false, true}) {
    TwoRings world;
    world.get_ready();
    const Data data = data_of(large, 1);
    auto sent = world.send(data, 1);
    const auto message = world.second.next(0);
    if (has_ended) world.segment->member(0).pid = ended_process();
    else sent.reset();  // it has given up, and may use its memory for something else
    Data to(large);
    Delivery delivery;
    delivery.to = reinterpret_cast<std::byte*>(to.data());
    world.second.deliver(0, message->ticket, message->header, delivery);
    for (int i = 0; i < 3; ++i) world.second.advance(0, delivery);
    EXPECT_FALSE(delivery.is_done);
    EXPECT_EQ(delivery.task->waiting_for(), std::vector<int>{0});
    EXPECT_EQ(to, Data(large));
  }
}

TEST(MessageRing, MemoryThatIsNotThereIsTheFailureOfItsRank) {
  TwoRings world;
  world.get_ready();
  void* const gone = ::mmap(nullptr, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  const auto sent = world.send(gone, large, 1);
  const auto message = world.second.next(0);
  Data to(large);
  Delivery delivery;
  delivery.to = reinterpret_cast<std::byte*>(to.data());
  world.second.deliver(0, message->ticket, message->header, delivery);
  try {
    world.second.advance(0, delivery);
    FAIL() << "nobody noticed";
  } catch (const GroupFailure& over) {
    EXPECT_EQ(over.failure().culprit, 0);
    EXPECT_EQ(over.failure().message, "rank 1: the buffer of rank 0 cannot be read where it was when it was sent: Bad address");
  }
  EXPECT_FALSE(delivery.is_done);
  ::munmap(gone, large);
}

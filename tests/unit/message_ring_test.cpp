// The ring of messages of one host: large messages that the receiver reads out of the sender's memory, and what happens where that cannot be.
#include "engines/shm/message_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/shm/private_memory.h"
#include "unisono/failure.h"

using namespace unisono;
using engines::AnnouncedMessage;
using engines::Delivery;
using engines::MessageHeader;
using engines::shm::LentBuffer;
using engines::shm::MessageRing;
using engines::shm::Reach;
using engines::shm::RingControl;
using engines::shm::Segment;

namespace {

using Data = std::vector<std::uint8_t>;
constexpr std::size_t large = 300'000;  // more than the ring has

Data data_of(std::size_t bytes, int seed) {
  Data data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
  return data;
}

base::Environment environment(const std::string& value) { return base::Environment({{"UNISONO_SINGLE_COPY", value}}); }

/// Rank 0 sends, rank 1 receives; both are this thread, so that nothing goes on by itself.
struct TwoRings {
  std::shared_ptr<std::byte> memory = engines::shm::private_memory(Segment::size_for({.ranks = 2}));
  std::shared_ptr<Segment> segment = std::make_shared<Segment>(Segment::Shape{.ranks = 2}, memory.get(), memory);
  MessageRing first, second;

  explicit TwoRings(const std::string& of_sender = "0", const std::string& of_receiver = "0")
      : first(segment, 0, environment(of_sender)), second(segment, 1, environment(of_receiver)) {}

  RingControl& control() const { return segment->ring(0, 1); }
  std::uint64_t written() const { return control().written.load(); }
  Reach reach() const { return static_cast<Reach>(control().reads_sender.load()); }
  std::unique_ptr<Task> send(const void* data, std::size_t bytes, int tag) {
    auto task = first.send(1, {.bytes = bytes, .tag = tag, .kind = 0}, data);
    task->advance();
    return task;
  }
  std::unique_ptr<Task> send(const Data& data, int tag) { return send(data.data(), data.size(), tag); }
  /// Receives a message that has been announced, while the sender goes on as far as `sent` goes.
  Data receive(const AnnouncedMessage& message, Task* sent = nullptr) {
    Data data(message.header.bytes);
    Delivery delivery;
    delivery.to = reinterpret_cast<std::byte*>(data.data());
    second.deliver(0, message.ticket, message.header, delivery);
    for (int i = 0; i < 1000 && !delivery.is_done; ++i) {
      second.advance(0, delivery);
      if (sent != nullptr) sent->advance();
    }
    EXPECT_TRUE(delivery.is_done);
    return data;
  }
  /// The first large message, after which both know whether the sender's memory can be read.
  void get_ready() {
    const Data data = data_of(large, 0);
    const auto sent = send(data, 0);
    const auto message = second.next(0);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->header.bytes, large);
    EXPECT_EQ(receive(*message, sent.get()), data);
    EXPECT_TRUE(sent->advance());
  }
};

int ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return child;
}

}  // namespace

TEST(LentBuffer, IsReadOnce) {
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
  EXPECT_EQ(world.written(), before + sizeof(MessageHeader));
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

TEST(MessageRing, AMessageThatFitsTheRingNeedsNoReceive) {
  TwoRings world;
  world.get_ready();
  constexpr std::size_t most = 100'000;  // an eighth of the ring may have been read without the sender's knowledge
  Data data = data_of(most, 1);
  const auto sent = world.send(data, 1);
  EXPECT_TRUE(sent->advance());
  data.assign(most, 0);
  const auto message = world.second.next(0);
  ASSERT_TRUE(message);
  EXPECT_EQ(world.receive(*message), data_of(most, 1));
}

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
  EXPECT_GT(world.written(), before + sizeof(MessageHeader));
  auto message = world.second.next(0);
  EXPECT_EQ(world.receive(*message, sent.get()), below);
  before = world.written();
  const auto lent = world.send(from, 1);
  EXPECT_EQ(world.written(), before + sizeof(MessageHeader));
  message = world.second.next(0);
  EXPECT_EQ(world.receive(*message), from);
}

TEST(MessageRing, IsUsedWhereOneSideDoesWithoutSingleCopy) {
  for (const bool is_sender : {false, true}) {
    TwoRings world(is_sender ? "off" : "0", is_sender ? "0" : "off");
    for (int i = 0; i < 2; ++i) world.get_ready();
    EXPECT_EQ(world.reach(), is_sender ? Reach::untried : Reach::no);
    const std::uint64_t before = world.written();
    const Data data = data_of(large, 1);
    const auto sent = world.send(data, 1);
    EXPECT_GT(world.written(), before + sizeof(MessageHeader));
  }
}

// Another process has the number, as in another PID namespace, or the system does not let this one read it.
TEST(MessageRing, IsUsedWhereTheWordIsNotFound) {
  TwoRings world;
  world.segment->member(0).pid = ended_process();
  for (int i = 0; i < 2; ++i) world.get_ready();
  EXPECT_EQ(world.reach(), Reach::no);
}

TEST(MessageRing, KeepsTheOrderOfLargeAndSmall) {
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

TEST(MessageRing, MoreAreLentThanThereArePlaces) {
  TwoRings world;
  world.get_ready();
  constexpr int n = static_cast<int>(RingControl::most_lent) + 3;
  const Data data = data_of(large + n, 1);
  std::vector<std::unique_ptr<Task>> sends;
  for (int i = 0; i < n; ++i) sends.push_back(world.send(data.data(), large + static_cast<std::size_t>(i), i));
  std::vector<AnnouncedMessage> messages;
  const auto look = [&] {
    while (const auto message = world.second.next(0)) messages.push_back(*message);
  };
  look();
  EXPECT_EQ(messages.size(), RingControl::most_lent);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(world.receive(messages[i]), Data(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(large + i)));
    for (const auto& sent : sends) sent->advance();
    look();
    ASSERT_EQ(messages[i].header.tag, static_cast<int>(i));
  }
  EXPECT_EQ(messages.size(), static_cast<std::size_t>(n));
  for (const auto& sent : sends) EXPECT_TRUE(sent->advance());
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

// Whoever waits for the receive looks for ranks that have ended, and gives its error.
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

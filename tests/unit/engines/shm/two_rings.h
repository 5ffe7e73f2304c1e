#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/shm/message_ring.h"
#include "engines/shm/private_memory.h"

// Two ranks that send each other messages through shared memory, for the tests of the ring.

using namespace unisono;
using engines::AnnouncedMessage;
using engines::Delivery;
using engines::MessageHeader;
using engines::shm::Envelope;
using engines::shm::LentBuffer;
using engines::shm::MessageRing;
using engines::shm::Reach;
using engines::shm::RingControl;
using engines::shm::Segment;

using Data = std::vector<std::uint8_t>;
inline constexpr std::size_t large = 300'000;  // more than the ring has

inline Data data_of(std::size_t bytes, int seed) {
  Data data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
  return data;
}

inline base::Environment environment(const std::string& value) { return base::Environment({{"UNISONO_SINGLE_COPY", value}}); }

/// Rank 0 sends, rank 1 receives; both are this thread, so that nothing goes on by itself.
struct TwoRings {
  static constexpr Segment::Shape shape{.ranks = 2, .ring_bytes = std::size_t{128} << 10};
  std::shared_ptr<std::byte> memory = engines::shm::private_memory(Segment::size_for(shape));
  std::shared_ptr<Segment> segment = std::make_shared<Segment>(shape, memory.get(), memory);
  MessageRing first, second;

  explicit TwoRings(const std::string& of_sender = "0", const std::string& of_receiver = "0")
      : TwoRings(environment(of_sender), environment(of_receiver)) {}
  TwoRings(const base::Environment& of_sender, const base::Environment& of_receiver)
      : first(segment, 0, of_sender), second(segment, 1, of_receiver) {}

  RingControl& control() const { return segment->ring(0, 1); }
  std::uint64_t written() const { return control().written.load(); }
  /// Returns how many messages rank 0 has announced, of fewer than there are envelopes.
  std::uint32_t announced() const {
    std::uint32_t last = 0;
    while (last < Envelope::count && segment->envelope(0, 1, last).number.load() == last + 1) ++last;
    return last;
  }
  /// Returns how many words stand for copies in the segment.
  int copies() const {
    int count = 0;
    for (std::size_t place = 0; place < RingControl::backed; ++place) count += control().lent[place].is_lent(0) ? 1 : 0;
    return count;
  }
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

inline int ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return child;
}

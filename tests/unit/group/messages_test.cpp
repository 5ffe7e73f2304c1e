// Messages between hosts: a number of a channel that comes again never mixes the bytes of two messages, and a sender waits for room at its receiver.
#include <malloc.h>

#include <atomic>
#include <list>

#include "coordination/notices.h"
#include "group/messages/channel_carrier.h"
#include "group/messages/message_matcher.h"
#include "group/messages/recv_task.h"

#include "unit/transport/tcp/link_testing.h"

namespace unisono::testing {
namespace {

using coordination::NoticeKind;
using coordination::Notices;
using engines::MessageCall;
using group::ChannelCarrier;
using group::MessageMatcher;

constexpr std::uint64_t group = 5;

/// Two ranks of which rank 1 sends and rank 0 receives. The notices of both are counted.
class Messages : public ::testing::Test {
 protected:
  explicit Messages(std::uint32_t largest_channel = 32767, std::size_t inline_bytes = 4096) {
    for (int rank = 0; rank < 2; ++rank) {
      Link* const link = links_[static_cast<std::size_t>(rank)].get();
      const auto at = static_cast<std::size_t>(rank);
      Told& told = told_[at];
      notices_[at] = std::make_unique<Notices>(links_[at], group, std::vector{0, 1});
      ChannelCarrier::Parts parts;
      parts.rank = rank;
      parts.tell = [notices = notices_[at].get(), &told](int peer, std::string_view notice, std::span<const std::byte> elements) {
        ++told.notices;
        told.bytes += notice.size() + elements.size();
        told.elements += elements.size();
        notices->tell(peer, notice, elements);
      };
      parts.channels = {.send =
                            [link](const void* data, std::size_t n, int peer, std::uint32_t channel) {
                              return link->send(data, n, peer, {channels, channel});
                            },
                        .recv =
                            [link](void* data, std::size_t n, int peer, std::uint32_t channel) {
                              return link->recv(data, n, peer, {channels, channel});
                            },
                        .discard =
                            [link](std::size_t n, int peer, std::uint32_t channel) {
                              return link->recv(nullptr, n, peer, {channels, channel});
                            },
                        .largest = largest_channel,
                        .inline_bytes = inline_bytes};
      parts.poll = [link] { link->poll(); };
      carriers_[at] = std::make_unique<ChannelCarrier>(std::move(parts));
      std::vector<MessageMatcher::Route> routes(2);
      routes[1 - at] = {.carrier = carriers_[at].get(), .peer = 1 - rank};
      messages_[at] = std::make_unique<MessageMatcher>(rank, std::move(routes));
      ChannelCarrier* const carrier = carriers_[at].get();
      notices_[at]->handle(NoticeKind::message, [carrier](int peer, std::string notice) { carrier->take(peer, std::move(notice)); });
      notices_[at]->handle(NoticeKind::taken, [carrier](int peer, std::string_view notice) { carrier->take_report(peer, notice); });
      notices_[at]->begin();
    }
  }
  ~Messages() override {
    sends_.clear();
    for (const auto& notices : notices_) notices->end();
  }

  /// Begins a send. Its data is overwritten at once, as a caller whose send has returned may do.
  Task& begin_send(std::size_t size, int tag) {
    auto data = pattern(size, static_cast<unsigned>(tag));
    sends_.push_back(messages_[1]->send(call(data, 0, tag)));
    Task& task = *sends_.back();
    EXPECT_TRUE(task.advance() || task.detach());
    std::ranges::fill(data, static_cast<unsigned char>(0xee));
    return task;
  }
  /// Returns the content of the message with that tag, while the sender goes on with its sends as well.
  std::vector<unsigned char> receive(std::size_t size, int tag) {
    std::vector<unsigned char> data(size);
    const auto task = std::make_unique<group::RecvTask>(*messages_[0], call(data, 1, tag));
    EXPECT_TRUE(eventually([&] {
      std::erase_if(sends_, [](const auto& send) { return send->advance(); });
      return task->advance();
    }));
    return data;
  }
  void expect_message(std::size_t size, int tag) { ASSERT_EQ(receive(size, tag), pattern(size, static_cast<unsigned>(tag))) << tag; }
  /// Tells whether all sends are done soon, without a receive.
  bool all_are_sent() {
    return eventually([&] {
      std::erase_if(sends_, [](const auto& send) { return send->advance(); });
      return sends_.empty();
    });
  }

  struct Told {
    std::atomic<std::size_t> notices{0}, bytes{0};
    std::atomic<std::size_t> elements{0};  ///< bytes that follow the words of the notices
  };
  std::array<Told, 2> told_;  ///< by each rank
  std::list<std::unique_ptr<Task>> sends_;

 private:
  static constexpr std::uint64_t channels = ~group;
  static MessageCall call(std::vector<unsigned char>& data, int peer, int tag) {
    MessageCall call;
    call.data = TensorView(data.data(), DType::uint8, std::array{static_cast<std::int64_t>(data.size())});
    call.peer = peer;
    call.tag = tag;
    return call;
  }

  std::vector<std::shared_ptr<Link>> links_ = make_links(2);
  std::array<std::unique_ptr<Notices>, 2> notices_;
  std::array<std::unique_ptr<ChannelCarrier>, 2> carriers_;
  std::array<std::unique_ptr<MessageMatcher>, 2> messages_;
};

constexpr std::size_t bytes = 5000;  // more than a notice carries

class FewChannels : public Messages {
 protected:
  FewChannels() : Messages(3) {}
};

TEST_F(FewChannels, FewChannelsAreUsedAgainAndAgain) {
  for (int tag = 0; tag < 20; ++tag) {
    begin_send(bytes, tag);
    expect_message(bytes, tag);
  }
}

TEST_F(FewChannels, AMessageThatWaitsIsNeverTakenForALaterOne) {
  for (int tag = 0; tag < 6; ++tag) begin_send(bytes, tag);
  expect_message(bytes, 1);
  try {
    receive(bytes, 3);  // on the channel of tag 0, which nobody has received
    FAIL() << "the bytes of another message were taken";
  } catch (const ProtocolError& error) {
    EXPECT_NE(error.message().find("with tag 0 has waited to be received while 3 others came"), std::string::npos) << error.message();
  }
  for (const int tag : {4, 0, 3, 2, 5}) expect_message(bytes, tag);  // 3: the receive that was refused has not lost its message
}

constexpr std::size_t inlined = 4096;                    // as much as a notice carries
constexpr std::size_t most_at_receiver = (5 << 20) / 4;  // bytes, beyond which a message waits at its sender
constexpr int flood = 1000;                              // messages of 4 KiB that are three times as much

// Words of the library are among the shortest messages, so these are covered by the code of the notice.
TEST_F(Messages, FewElementsStandInTheNoticeAndMoreGoOnAChannel) {
  const std::vector<std::pair<std::size_t, std::size_t>> sizes{{0, 0}, {64, 0}, {65, 65}, {inlined, inlined}, {inlined + 1, 0}, {bytes, 0}};
  for (const auto& [size, beside_the_words] : sizes) {
    const std::size_t before = told_[1].elements;
    begin_send(size, 7);
    expect_message(size, 7);
    EXPECT_EQ(told_[1].elements - before, beside_the_words) << size;
  }
  EXPECT_TRUE(all_are_sent());
}

/// As over an engine that works on the connections of the notices. A notice of that size is read directly into its memory.
class MessagesOfOneConnection : public Messages {
 protected:
  MessagesOfOneConnection() : Messages(32767, std::size_t{16} << 10) {}
};

TEST_F(MessagesOfOneConnection, LargeElementsInANoticeArriveAsTheyWereSent) {
  for (const std::size_t size : {inlined + 1, std::size_t{16'384}, std::size_t{16'385}}) {
    const std::size_t before = told_[1].elements;
    begin_send(size, 3);
    expect_message(size, 3);
    EXPECT_EQ(told_[1].elements - before, size <= 16'384 ? size : 0) << size;
  }
  EXPECT_TRUE(all_are_sent());
}

TEST_F(Messages, MessagesWaitAtTheirSenderWhileTheReceiverTakesNone) {
  for (int tag = 0; tag < flood; ++tag) begin_send(inlined, tag);
  Task& empty = begin_send(0, flood);
  Task& large = begin_send(bytes, flood + 1);
  const std::size_t told = told_[1].bytes;
  EXPECT_GT(told, most_at_receiver * 9 / 10);
  EXPECT_LE(told, most_at_receiver);
  for (Task* const task : {&empty, &large}) {
    EXPECT_FALSE(task->advance()) << "it has overtaken the others";
    EXPECT_EQ(task->waiting_for(), std::vector{0});
  }
  EXPECT_EQ(told_[1].bytes, told);
  for (int tag = 0; tag < flood; ++tag) expect_message(inlined, tag);
  expect_message(0, flood);
  expect_message(bytes, flood + 1);
  EXPECT_TRUE(all_are_sent());
}

// What the receiver has looked at is its own, so that a message of another tag comes through.
TEST_F(Messages, MessagesGoOnWhileTheReceiverWaitsForAnotherOne) {
  for (int i = 0; i < flood; ++i) begin_send(inlined, 1);
  begin_send(8, 2);
  expect_message(8, 2);
  EXPECT_TRUE(all_are_sent());
  for (int i = 0; i < flood; ++i) expect_message(inlined, 1);
}

TEST_F(Messages, MessagesGoOnBehindOneWhoseSenderHasGivenUp) {
  int tag = 1;
  while (begin_send(inlined, tag).waiting_for().empty()) ++tag;
  begin_send(inlined, tag + 1);
  sends_.erase(std::prev(sends_.end(), 2));
  for (int received = 1; received < tag; ++received) expect_message(inlined, received);
  expect_message(inlined, tag + 1);
}

// The receiver tells how much it has taken when that is worth a notice.
TEST_F(Messages, MessagesAreNotAnsweredOneByOne) {
  for (int tag = 0; tag < flood; ++tag) {
    begin_send(8, tag);
    expect_message(8, tag);
  }
  EXPECT_EQ(told_[1].notices, flood);
  EXPECT_EQ(told_[0].notices, 0U);
}

// A process has these for each rank of the job, and exchanges messages with few of them.
TEST(MessagesOfManyRanks, ARankWithoutMessagesTakesFewBytes) {
  constexpr std::size_t ranks = 10'000, bytes_of_a_rank = 24;
  const auto allocated = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  const std::size_t before = allocated();
  const auto carrier = std::make_unique<ChannelCarrier>(ChannelCarrier::Parts{.tell = {}, .poll = {}, .channels = {}});
  const MessageMatcher matcher(0, std::vector<MessageMatcher::Route>(ranks, {.carrier = carrier.get()}));
  EXPECT_LE(allocated() - before, ranks * bytes_of_a_rank);
}

}  // namespace
}  // namespace unisono::testing

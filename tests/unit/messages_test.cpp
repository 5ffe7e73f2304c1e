// Messages between hosts: a number of a channel that comes again never mixes the bytes of two messages.
#include "group/channel_carrier.h"
#include "group/message_matcher.h"

#include "link_testing.h"

namespace unisono::testing {
namespace {

using engines::MessageCall;
using group::ChannelCarrier;
using group::MessageMatcher;

constexpr std::size_t bytes = 5000;  // more than a notice carries
constexpr std::uint64_t group = 5;

/// Two ranks that have three channels only.
class FewChannels : public ::testing::Test {
 protected:
  FewChannels() {
    for (int rank = 0; rank < 2; ++rank) {
      Link* const link = links_[static_cast<std::size_t>(rank)].get();
      const auto at = static_cast<std::size_t>(rank);
      ChannelCarrier::Parts parts;
      parts.rank = rank;
      parts.size = 2;
      parts.tell = [link](int peer, std::string_view notice) { link->notify(peer, group, notice); };
      parts.channels = {.send =
                            [link](const void* data, std::size_t n, int peer, std::uint32_t channel) {
                              return link->send(data, n, peer, {group, channel});
                            },
                        .recv =
                            [link](void* data, std::size_t n, int peer, std::uint32_t channel) {
                              return link->recv(data, n, peer, {group, channel});
                            },
                        .discard =
                            [link](std::size_t n, int peer, std::uint32_t channel) {
                              return link->recv(nullptr, n, peer, {group, channel});
                            },
                        .largest = 3};
      parts.poll = [link] { link->poll(); };
      carriers_[at] = std::make_unique<ChannelCarrier>(std::move(parts));
      std::vector<MessageMatcher::Route> routes(2);
      routes[1 - at] = {.carrier = carriers_[at].get(), .peer = 1 - rank};
      messages_[at] = std::make_unique<MessageMatcher>(rank, std::move(routes));
      link->listen(group, [carrier = carriers_[at].get()](int peer, std::string_view notice) { carrier->take(peer, notice); });
    }
  }
  ~FewChannels() override {
    for (const auto& link : links_) link->listen(group, {});
  }

  void send(int tag) {
    auto data = pattern(bytes, static_cast<unsigned>(tag));
    finish(*messages_[1]->send(call(data, 0, tag)));
  }
  /// The content of the message with that tag, or the error.
  std::vector<unsigned char> receive(int tag) {
    std::vector<unsigned char> data(bytes);
    finish(*messages_[0]->recv(call(data, 1, tag)));
    return data;
  }

 private:
  static MessageCall call(std::vector<unsigned char>& data, int peer, int tag) {
    MessageCall call;
    call.data = TensorView(data.data(), DType::uint8, std::array{static_cast<std::int64_t>(data.size())});
    call.peer = peer;
    call.tag = tag;
    return call;
  }

  std::vector<std::shared_ptr<Link>> links_ = make_links(2);
  std::array<std::unique_ptr<ChannelCarrier>, 2> carriers_;
  std::array<std::unique_ptr<MessageMatcher>, 2> messages_;
};

TEST_F(FewChannels, AreUsedAgainAndAgain) {
  for (int tag = 0; tag < 20; ++tag) {
    send(tag);
    EXPECT_EQ(receive(tag), pattern(bytes, static_cast<unsigned>(tag)));
  }
}

TEST_F(FewChannels, AMessageThatWaitsIsNeverTakenForALaterOne) {
  for (int tag = 0; tag < 6; ++tag) send(tag);
  EXPECT_EQ(receive(1), pattern(bytes, 1));
  try {
    receive(3);  // on the channel of tag 0, which nobody has received
    FAIL() << "the bytes of another message were taken";
  } catch (const ProtocolError& error) {
    EXPECT_NE(error.message().find("with tag 0 has waited to be received while 3 others came"), std::string::npos) << error.message();
  }
  EXPECT_EQ(receive(4), pattern(bytes, 4));
  EXPECT_EQ(receive(0), pattern(bytes, 0));
  EXPECT_EQ(receive(3), pattern(bytes, 3)) << "the receive that was refused lost its message";
  EXPECT_EQ(receive(2), pattern(bytes, 2));
  EXPECT_EQ(receive(5), pattern(bytes, 5));
}

}  // namespace
}  // namespace unisono::testing

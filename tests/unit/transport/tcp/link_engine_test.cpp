// The tcp engine: the link's channels between the ranks of a group.
#include "engines/tcp/tcp.h"

#include <numeric>

#include "link_testing.h"
#include "unisono/engine.h"

namespace unisono::testing {
namespace {

EngineOptions engine_options(int rank, std::vector<int> global_ranks, std::string key) {
  EngineOptions options;
  options.group_name = "some";
  options.key = std::move(key);
  options.rank = rank;
  options.global_ranks = std::move(global_ranks);
  return options;
}

TEST(TcpEngine, RanksOfAGroupAreNotThoseOfTheWorld) {
  const auto links = make_links(3, [](Link::Options& options) {
    options.hosts = {0, 0, 1};
    options.all = true;
  });
  const std::vector<int> members{2, 0};
  as_ranks(2, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(members[static_cast<std::size_t>(rank)])];
    const auto engine = engines::tcp::make_tcp(engine_options(rank, members, "a"), link);
    const auto other = engines::tcp::make_tcp(engine_options(rank, members, "b"), link);
    EXPECT_EQ(engine->name(), "tcp");
    EXPECT_TRUE(engine->has_channels());
    const int out[] = {rank * 10, rank * 10 + 1};
    int in[] = {-1, -1};
    const auto first = engine->start_recv(&in[0], sizeof(int), 1 - rank, 5);
    const auto second = other->start_recv(&in[1], sizeof(int), 1 - rank, 5);
    EXPECT_EQ(first->waiting_for(), std::vector<int>{1 - rank});
    finish(*other->start_send(&out[1], sizeof(int), 1 - rank, 5));
    finish(*engine->start_send(&out[0], sizeof(int), 1 - rank, 5));
    finish(*first);
    finish(*second);
    EXPECT_EQ(in[0], (1 - rank) * 10);
    EXPECT_EQ(in[1], (1 - rank) * 10 + 1);
    EXPECT_THROW(engine->start_send(out, 1, rank, 0), InvalidArgument);
    EXPECT_THROW(engine->start_send(out, 1, 2, 0), InvalidArgument);
  });
}

TEST(TcpEngine, AbortEndsWhatIsUnderWayAndNoOtherGroup) {
  const auto links = make_links(2);
  const auto a = engines::tcp::make_tcp(engine_options(0, {0, 1}, "a"), links[0]);
  const auto b = engines::tcp::make_tcp(engine_options(0, {0, 1}, "b"), links[0]);
  const auto at_peer = engines::tcp::make_tcp(engine_options(1, {0, 1}, "a"), links[1]);
  const auto b_at_peer = engines::tcp::make_tcp(engine_options(1, {0, 1}, "b"), links[1]);
  int value = 0;
  std::vector<unsigned char> large(1'000'000);
  const auto waiting = a->start_recv(&value, sizeof value, 1, 0);
  const auto sending = at_peer->start_send(large.data(), large.size(), 0, 1);
  const auto other = b->start_recv(&value, sizeof value, 1, 0);
  a->abort({.cause = PeerFailed::aborted, .culprit = 1, .message = "it was given up"});
  try {
    finish(*waiting);
    FAIL() << "it ended well";
  } catch (const PeerFailed& error) {
    EXPECT_EQ(error.message(), "it was given up");
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
  }
  EXPECT_THROW(finish(*a->start_recv(&value, sizeof value, 1, 0)), PeerFailed);
  EXPECT_THROW(finish(*sending), PeerFailed);
  const int out = 5;
  finish(*b_at_peer->start_send(&out, sizeof out, 0, 0));
  finish(*other);
  EXPECT_EQ(value, 5);
}

// The peer names the length: no memory is made for it.
TEST(TcpEngine, AMessageThatNobodyWantsIsDroppedOnItsWay) {
  const auto links = make_links(2);
  const auto ours = engines::tcp::make_tcp(engine_options(0, {0, 1}, "a"), links[0]);
  const auto peer = engines::tcp::make_tcp(engine_options(1, {0, 1}, "a"), links[1]);
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{40'000}, std::size_t{3'000'000}}) {
    const auto unwanted = pattern(bytes, 1), wanted = pattern(bytes, 2);
    std::vector<unsigned char> in(bytes);
    for (const bool arrives_first : {false, true}) {
      auto discarded = arrives_first ? nullptr : ours->start_discard(bytes, 1, 7);
      const auto first = peer->start_send(unwanted.data(), bytes, 0, 7);
      const auto second = peer->start_send(wanted.data(), bytes, 0, 7);
      if (arrives_first) {
        const int mark = 1;
        int at = 0;
        finish(*peer->start_send(&mark, sizeof mark, 0, 8));
        finish(*ours->start_recv(&at, sizeof at, 1, 8));  // came behind them on the same connection
        discarded = ours->start_discard(bytes, 1, 7);
      }
      const auto received = ours->start_recv(in.data(), bytes, 1, 7);
      finish(*discarded);
      finish(*received);
      finish(*first);
      finish(*second);
      EXPECT_EQ(in, wanted) << bytes;
    }
  }
  EXPECT_NO_THROW(ours->start_discard(std::size_t{1} << 62, 1, 9));
}

TEST(TcpEngine, AnEngineThatCannotDropSaysWhereItHasNoRoom) {
  class Plain final : public Engine {
   public:
    std::string_view name() const noexcept override { return "plain"; }
    void abort(const Failure&) noexcept override {}
  };
  try {
    static_cast<void>(Plain().start_discard(~std::size_t{0}, 3, 0));
    FAIL() << "it has taken that much";
  } catch (const ProtocolError& error) {
    EXPECT_EQ(error.culprit(), 3);
    EXPECT_NE(error.message().find("18446744073709551615 bytes that no rank asks for"), std::string::npos) << error.message();
  }
}

TEST(TcpEngine, TheEngineCannotBeUsedWithoutConnections) {
  EXPECT_THROW(engines::tcp::make_tcp(engine_options(0, {0, 1}, "a"), nullptr), BackendUnavailable);
  EXPECT_EQ(engines::tcp::make_tcp(engine_options(0, {0}, "a"), nullptr)->name(), "tcp");
  Link::Options one_host = link_options(0, 2, std::make_shared<MemoryStore>());
  one_host.hosts = {0, 0};
  const auto link = Link::connect(one_host);
  EXPECT_THROW(engines::tcp::make_tcp(engine_options(0, {0, 1}, "a"), link), BackendUnavailable);
}

// The receives of a collective are posted when their messages come, so the sender of a larger one is not asked to wait for them either.
TEST(Link, MessagesOfCollectivesLeaveWithoutAReceiveUpToALargerSize) {
  const auto links = make_links(2);
  constexpr std::size_t kibibyte = 1024;
  std::vector<unsigned char> data = pattern(256 * kibibyte, 1), more = pattern(256 * kibibyte + 1, 2);
  EXPECT_TRUE(links[0]->send(data.data(), data.size(), 1, {5, 0})->advance());
  std::ranges::fill(data, 0);  // it is copied, or has left
  const auto other_channel = links[0]->send(more.data(), 64 * kibibyte + 1, 1, {5, 1}), larger = links[0]->send(more.data(), more.size(), 1, {5, 0});
  EXPECT_FALSE(other_channel->advance());
  std::vector<unsigned char> first(data.size()), second(more.size()), third(64 * kibibyte + 1);
  finish(*links[1]->recv(first.data(), first.size(), 0, {5, 0}));
  EXPECT_EQ(first, pattern(256 * kibibyte, 1));
  finish(*links[1]->recv(third.data(), third.size(), 0, {5, 1}));
  finish(*links[1]->recv(second.data(), second.size(), 0, {5, 0}));
  EXPECT_EQ(second, more);
  finish(*other_channel);
  finish(*larger);
}

TEST(Link, ALargeMessageOfACollectiveEndsWhenItHasBeenSentIfThereIsRoom) {
  const auto links = make_links(2);
  constexpr std::size_t kibibyte = 1024;
  std::vector<unsigned char> data = pattern(900 * kibibyte, 1), small = pattern(10, 3), more = pattern(2048 * kibibyte, 2);
  finish(*links[0]->send(data.data(), data.size(), 1, {5, 0}));
  std::ranges::fill(data, 0);  // its memory is the caller's again
  EXPECT_TRUE(links[0]->send(small.data(), small.size(), 1, {5, 0})->advance()) << "the order is kept behind it";
  const auto without_room = links[0]->send(more.data(), more.size(), 1, {5, 0});
  std::vector<unsigned char> first(data.size()), second(small.size()), third(more.size());
  finish(*links[1]->recv(first.data(), first.size(), 0, {5, 0}));
  EXPECT_EQ(first, pattern(900 * kibibyte, 1));
  finish(*links[1]->recv(second.data(), second.size(), 0, {5, 0}));
  EXPECT_EQ(second, small);
  EXPECT_FALSE(without_room->advance()) << "more than the room waits for its receive";
  finish(*links[1]->recv(third.data(), third.size(), 0, {5, 0}));
  EXPECT_EQ(third, more);
  finish(*without_room);
  links[0]->goodbye(patience);
}

TEST(Link, AReceiveOfAnotherLengthIsItsOwnErrorOnceTheMessageHasBeenSent) {
  const auto links = make_links(2);
  const std::vector<unsigned char> data = pattern(400'000, 1);
  const auto send = links[0]->send(data.data(), data.size(), 1, {5, 0});
  finish(*send);
  std::vector<unsigned char> in(data.size() + 1);
  EXPECT_THROW(finish(*links[1]->recv(in.data(), in.size(), 0, {5, 0})), ProtocolError);
  links[0]->poll();
  EXPECT_TRUE(send->advance());
  in.pop_back();
  finish(*links[0]->send(data.data(), data.size(), 1, {5, 0}));
  finish(*links[1]->recv(in.data(), in.size(), 0, {5, 0}));
  EXPECT_EQ(in, data);
}

}  // namespace
}  // namespace unisono::testing

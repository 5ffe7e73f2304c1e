// The tcp engine: the link's channels between the ranks of a group.
#include "backends/tcp/tcp.h"

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
    const auto engine = backends::make_tcp(engine_options(rank, members, "a"), link);
    const auto other = backends::make_tcp(engine_options(rank, members, "b"), link);
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
  const auto a = backends::make_tcp(engine_options(0, {0, 1}, "a"), links[0]);
  const auto b = backends::make_tcp(engine_options(0, {0, 1}, "b"), links[0]);
  const auto at_peer = backends::make_tcp(engine_options(1, {0, 1}, "a"), links[1]);
  const auto b_at_peer = backends::make_tcp(engine_options(1, {0, 1}, "b"), links[1]);
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

TEST(TcpEngine, WithoutConnectionsItCannotBeUsed) {
  EXPECT_THROW(backends::make_tcp(engine_options(0, {0, 1}, "a"), nullptr), BackendUnavailable);
  EXPECT_EQ(backends::make_tcp(engine_options(0, {0}, "a"), nullptr)->name(), "tcp");
  Link::Options one_host = link_options(0, 2, std::make_shared<MemoryStore>());
  one_host.hosts = {0, 0};
  const auto link = Link::connect(one_host);
  EXPECT_THROW(backends::make_tcp(engine_options(0, {0, 1}, "a"), link), BackendUnavailable);
}

}  // namespace
}  // namespace unisono::testing

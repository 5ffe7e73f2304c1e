// What ranks that are not all connected with each other tell each other of others, and the attempts at one connection.
#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>

#include "link_on_demand.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/relay.h"

namespace unisono::testing {
namespace {

// A rank's notice to many does not overtake the messages that wait for a connection.
TEST(LinkOnDemand, AnAnnouncementDoesNotOvertakeAMessage) {
  for (int round = 0; round < 20; ++round) {
    const auto links = links_on_demand(12);
    std::atomic<bool> has_left{false};
    int in = 0;
    of(links, 11)->listen(5, [&](int, std::string_view) { has_left = true; });
    const int out = 5;
    of(links, 10)->send(&out, sizeof out, 11, {1, 1})->detach();
    of(links, 10)->announce(5, others_than(10, 12), "leaves", Announcement::leaving);
    EXPECT_TRUE(eventually([&] { return has_left.load(); }));
    EXPECT_TRUE(of(links, 11)->recv(&in, sizeof in, 10, {1, 1})->advance()) << round;
    of(links, 11)->listen(5, {});
  }
}

TEST(LinkOnDemand, AnAnnouncementIsForItsMembersAndComesOnce) {
  const auto links = links_on_demand();
  talk(links, 9, 17, 1);  // a way beside the tree
  Ears ears(links, 5);
  const std::vector<int> members{0, 3, 17, 19};
  for (int i = 0; i < 20; ++i) of(links, 9)->announce(5, members, std::to_string(i), Announcement::call);
  for (const int member : members) {
    EXPECT_TRUE(eventually([&] { return ears.of(member).size() == 20; })) << member;
    for (int i = 0; i < 20; ++i) EXPECT_EQ(ears.of(member)[static_cast<std::size_t>(i)], std::pair(9, std::to_string(i)));
  }
  // Of a failure the first one counts, whoever tells it.
  as_ranks(world, [&](int rank) { of(links, rank)->announce(6, others_than(rank), "over", Announcement::failure); });
  Ears more(links, 6);
  for (int r = 0; r < world; ++r) {
    EXPECT_LE(more.of(r).size(), 1U);
    if (r != 0 && r != 3 && r != 17 && r != 19) {
      EXPECT_TRUE(ears.of(r).empty()) << r;
    }
  }
}

// The members of a small group that leaves are told where there is a connection, and the others when there is one.
TEST(LinkOnDemand, ARankThatLeavesASmallGroupTellsThoseThatConnectLater) {
  const auto links = links_on_demand(world, [](Link::Options& options) { options.most_eager = 4; });
  Ears ears(links, 5);
  const std::vector<int> members{1, 18};
  of(links, 9)->announce(5, members, "leaves", Announcement::leaving);
  EXPECT_TRUE(eventually([&] { return ears.of(1).size() == 1; }));
  EXPECT_TRUE(ears.of(18).empty());
  int in = 0;
  const auto waits = of(links, 18)->recv(&in, sizeof in, 9, {5, 1});  // it looks whether that rank is there
  EXPECT_TRUE(eventually([&] { return ears.of(18).size() == 1; }));
  EXPECT_FALSE(waits->advance());
}

// A member that is not connected with the one that leaves, and does not come to be, hears of it before it sees that that rank is gone.
TEST(LinkOnDemand, TheGoodbyeCarriesTheNoticesToSmallGroups) {
  const auto links = links_on_demand(world, [](Link::Options& options) { options.most_eager = 4; });
  Ears ears(links, 5), others(links, 6);
  of(links, 9)->announce(5, std::vector{1, 18}, "leaves", Announcement::leaving);
  of(links, 9)->announce(6, std::vector{12, 16, 17}, "leaves too", Announcement::leaving);
  of(links, 9)->goodbye(patience);
  for (const int r : others_than(9)) {
    EXPECT_TRUE(eventually([&] { return of(links, r)->has_left(9); })) << r;
    EXPECT_EQ(ears.of(r).size(), r == 1 || r == 18 ? 1U : 0U) << r;
    EXPECT_EQ(others.of(r).size(), r == 12 || r == 16 || r == 17 ? 1U : 0U) << r;
  }
  EXPECT_EQ(ears.of(18), (std::vector{std::pair(9, std::string("leaves"))}));
  EXPECT_EQ(others.of(16), (std::vector{std::pair(9, std::string("leaves too"))}));
}

// Of very many groups the latest are told with the goodbye.
TEST(LinkOnDemand, TheGoodbyeIsNotLongerThanAFrame) {
  const auto links = links_on_demand(world, [](Link::Options& options) { options.most_eager = 4; });
  Ears first(links, 1), last(links, 400), all(links, 1000);
  const std::string text(100, 'x');
  for (std::uint64_t group = 1; group <= 400; ++group) of(links, 9)->announce(group, std::vector{18}, text, Announcement::leaving);
  const std::string goodbye(300, 'y');  // there is room for it beside as many as there may be
  of(links, 9)->announce(1000, others_than(9), goodbye, Announcement::goodbye);
  of(links, 9)->goodbye(patience);
  EXPECT_TRUE(eventually([&] { return of(links, 18)->has_left(9); }));
  EXPECT_EQ(last.of(18).size(), 1U);
  EXPECT_EQ(first.of(18).size(), 0U);
  EXPECT_EQ(all.of(18), (std::vector{std::pair(9, goodbye)}));
  for (const auto& link : links) EXPECT_FALSE(link->lost().has_value());
}

TEST(LinkOnDemand, MembersAreTheirNumbersOrBitsWhateverIsShorter) {
  for (const std::size_t ranks : {std::size_t{9}, std::size_t{64}, std::size_t{65}, std::size_t{1000}}) {
    const int last = static_cast<int>(ranks) - 1;
    for (const auto& members : {std::vector<int>{}, {0}, {last}, {1, 7}, {0, 1, 2, 3, 4, 5, last}}) {
      const transport::SpreadNotice notice{.origin = 8, .key = 5, .members = transport::members_text(members, ranks)};
      EXPECT_LE(notice.members.size(), 1 + std::min(4 * members.size(), (ranks + 7) / 8));
      for (int r = 0; r <= last; ++r) EXPECT_EQ(notice.is_for(r), std::ranges::count(members, r) == 1) << r << " of " << ranks;
    }
    EXPECT_EQ(transport::members_text(others_than(-1, last + 1), ranks), "");
  }
}

/// Keeps a rank's link from looking at its connections: its thread is in a listener until this ends.
class Asleep {
 public:
  Asleep(const std::vector<std::shared_ptr<Link>>& links, int rank, int neighbour) : link_(of(links, rank)) {
    link_->listen(group, [this](int, std::string_view) {
      sleeps_.count_down();
      wakes_.wait();
    });
    of(links, neighbour)->notify(rank, group, "sleep");
    sleeps_.wait();
  }
  void wake() {
    wakes_.count_down();
    link_->listen(group, {});
  }

 private:
  static constexpr std::uint64_t group = 77;
  const std::shared_ptr<Link>& link_;
  std::latch sleeps_{1}, wakes_{1};
};

// A rank that cannot be connected with any more has left where its neighbours say so, and is no loss.
TEST(LinkOnDemand, ARankThatHasLeftMeanwhileIsNotLost) {
  auto links = links_on_demand(world, [](Link::Options& options) { options.timeout = 5s; });  // in which all of them meet
  Asleep sleeper(links, 9, 1);
  links[3]->goodbye(patience);
  links[3].reset();
  EXPECT_TRUE(eventually([&] { return of(links, 1)->has_left(3); }));
  const int out = 5;
  const auto vain = of(links, 9)->send(&out, sizeof out, 3, {1, 1});
  sleeper.wake();
  EXPECT_TRUE(eventually([&] { return of(links, 9)->is_gone(3); }));
  for (const auto& link : links) EXPECT_FALSE(link && link->lost().has_value()) << link->lost()->text;
  EXPECT_TRUE(of(links, 9)->has_left(3));
}

// The ranks below a lost one connect with the rank above it, which may be about to leave the job: they hear which groups it has left before they see
// that it is gone.
TEST(LinkOnDemand, ARankThatConnectsWithOneThatLeavesHearsItsNoticesBeforeItsGoodbye) {
  for (int round = 0; round < 20; ++round) {
    auto links = links_on_demand(12);  // rank 0 has the children 1 … 8, rank 1 has 9 … 11
    Ears ears(links, 5);
    links[1].reset();
    of(links, 0)->announce(5, others_than(0, 12), "leaves", Announcement::leaving);
    of(links, 0)->goodbye(patience);
    for (const int r : {9, 10, 11}) {
      EXPECT_TRUE(eventually([&] { return of(links, r)->has_left(0); })) << r;
      EXPECT_EQ(ears.of(r), (std::vector{std::pair(0, std::string("leaves"))})) << r << " in round " << round;
    }
  }
}

TEST(LinkOnDemand, WordsThatNoRankSaysEndTheConnection) {
  using transport::FrameKind;
  const auto notice_of = [](int rank) { return transport::encode(transport::SpreadNotice{.origin = rank, .key = 5, .text = "x"}); };
  const std::string no_rank = transport::encode(transport::SpreadNotice{.origin = 1000, .key = 5, .goes_on = true, .members = {}, .text = "x"});
  EXPECT_THROW(static_cast<void>(transport::decode_spread(no_rank, 2)), ProtocolError);
  for (std::size_t n = 0; n < 17; ++n) EXPECT_THROW(static_cast<void>(transport::decode_spread(no_rank.substr(0, n), 2000)), ProtocolError) << n;
  const std::vector<transport::Departure> lost{{.rank = 3, .lost = PeerFailed::silent, .text = "why", .group = 0},
                                               {.rank = 4, .notices = {{7, notice_of(4)}}}};
  const std::string told = transport::encode(lost);
  const std::string failure = transport::encode(transport::SpreadNotice{.origin = 4, .key = transport::key_of_failure, .text = "x"});
  const std::string longest(transport::longest_departure, 'x');
  const auto long_notice = transport::encode(transport::SpreadNotice{.origin = 4, .key = 5, .text = longest});
  for (const auto& notice : {notice_of(3), failure, long_notice}) {
    const std::vector<transport::Departure> wrong{{.rank = 4, .notices = {{7, notice}}}};
    EXPECT_THROW(static_cast<void>(transport::decode_departures(transport::encode(wrong), 5)), ProtocolError);
  }
  EXPECT_EQ(transport::decode_departures(told, 5).size(), 2U);
  EXPECT_THROW(static_cast<void>(transport::decode_departures(told, 4)), ProtocolError);
  EXPECT_THROW(static_cast<void>(transport::decode_departures(told.substr(0, told.size() - 1), 5)), ProtocolError);
  // Where all ranks are connected nobody has anything to say of others.
  const auto both = make_link_and_hand();
  both.say({.kind = FrameKind::gone, .length = static_cast<std::uint32_t>(told.size())}, told);
  EXPECT_TRUE(eventually([&] { return both.link->lost().has_value(); }));
}

// ---- the attempts at one connection ------------------------------------------------------------------------------

struct Asked {
  std::mutex mutex;
  std::string failed;
  int connected = 0;
  bool has(const std::function<bool(const Asked&)>& what) {
    const std::lock_guard lock(mutex);
    return what(*this);
  }
};

std::unique_ptr<transport::Connector> connector(int rank, const std::string& secret, Asked& asked, std::uint16_t& port) {
  transport::Acceptor acceptor(rank, "127.0.0.1", {});
  acceptor.open(secret, nullptr);
  port = acceptor.port();
  return std::make_unique<transport::Connector>(transport::Caller{.rank = rank, .address = "127.0.0.1", .secret = secret}, std::move(acceptor),
                                                others_than(rank), 700ms,
                                                transport::Connector::Owner{.wants = [](int) { return true; },
                                                                            .accepts = [](int) { return true; },
                                                                            .connected =
                                                                                [&asked](int, transport::Established) {
                                                                                  const std::lock_guard lock(asked.mutex);
                                                                                  ++asked.connected;
                                                                                },
                                                                            .failed =
                                                                                [&asked](int, const std::string& why) {
                                                                                  const std::lock_guard lock(asked.mutex);
                                                                                  asked.failed = why;
                                                                                },
                                                                            .broken = [](const std::string& why) { ADD_FAILURE() << why; }});
}

TEST(LinkConnector, AnAttemptThatFailsNamesTheRank) {
  using Patience = transport::Connector::Patience;
  const std::string secret(32, 's');
  std::uint16_t port = 0, unused = 0;
  Asked silent, refused, at_once;
  base::Opened deaf = base::try_listen(base::resolve("127.0.0.1", 0).front());  // accepts nobody
  ASSERT_TRUE(deaf.fd);
  const auto waits = connector(3, secret, silent, port);
  waits->dial(7, base::local_address(deaf.fd.get()), Patience::usual);
  const auto nobody = [&] {
    const base::Opened closed = base::try_listen(base::resolve("127.0.0.1", 0).front());
    return base::local_address(closed.fd.get());
  }();
  const auto insists = connector(4, secret, refused, unused);
  insists->dial(8, nobody, Patience::usual);
  const auto asks_once = connector(5, secret, at_once, unused);
  asks_once->dial(9, nobody, Patience::none);
  EXPECT_TRUE(eventually([&] { return at_once.has([](const Asked& asked) { return !asked.failed.empty(); }); }));
  EXPECT_NE(at_once.failed.find("rank 9 at 127.0.0.1:"), std::string::npos) << at_once.failed;
  EXPECT_NE(at_once.failed.find("Connection refused"), std::string::npos) << at_once.failed;
  EXPECT_TRUE(eventually([&] { return silent.has([](const Asked& asked) { return !asked.failed.empty(); }); }));
  EXPECT_NE(silent.failed.find("rank 7 at 127.0.0.1:"), std::string::npos) << silent.failed;
  EXPECT_NE(silent.failed.find("within 700 ms"), std::string::npos) << silent.failed;
  EXPECT_TRUE(eventually([&] { return refused.has([](const Asked& asked) { return !asked.failed.empty(); }); }));
  EXPECT_NE(refused.failed.find("rank 8 at 127.0.0.1:"), std::string::npos) << refused.failed;
}

TEST(LinkConnector, ARankThatDoesNotKnowTheSecretIsNotConnected) {
  Asked here, there;
  std::uint16_t port = 0, unused = 0;
  const auto accepts = connector(1, std::string(32, 's'), here, port);
  const auto dials = connector(2, std::string(32, 't'), there, unused);
  dials->dial(1, base::resolve("127.0.0.1", port).front(), transport::Connector::Patience::usual);
  EXPECT_TRUE(eventually([&] { return there.has([](const Asked& asked) { return !asked.failed.empty(); }); }));
  EXPECT_EQ(here.connected, 0);
  EXPECT_EQ(there.connected, 0);
}

}  // namespace
}  // namespace unisono::testing

// Links that connect with their neighbours in a tree, and with other ranks when they first need to.
#include <algorithm>
#include <atomic>
#include <random>

#include "base/bytes.h"
#include "base/hash.h"
#include "link_on_demand.h"

namespace unisono::testing {
namespace {

TEST(LinkOnDemand, ARankConnectsWithItsNeighboursAloneAndKnowsWhereAllListen) {
  const auto links = links_on_demand();
  const WatchTree tree(link_options(0, world, nullptr).hosts);
  for (int r = 0; r < world; ++r) {
    EXPECT_EQ(of(links, r)->connections(), tree.children(r).size() + (r == 0 ? 0 : 1));
    for (const int other : others_than(r)) EXPECT_EQ(of(links, r)->address_of(other).find("127.0.0.1:"), 0U);
    EXPECT_EQ(of(links, r)->address_of(r), "");
  }
}

TEST(LinkOnDemand, TheLimitSaysWhenAndIsOfTheRankWithMostPeers) {
  for (const std::size_t limit : {2, 3}) {
    // The rank of host 1 has three peers, the others have one.
    const auto links = make_links(4, [&](Link::Options& options) {
      options.hosts = {0, 0, 1, 0};
      options.most_eager = limit;
    });
    EXPECT_EQ(links[0]->connections(), limit == 3 ? 1U : 3U);  // to rank 2, or to its children 1, 3 and 2
    EXPECT_EQ(links[1]->address_of(0), "");
    EXPECT_THROW(links[1]->notify(0, 1, "on the same host"), InvalidArgument);
    talk(links, 1, 2, 5);
    talk(links, 2, 3, 6);
  }
}

TEST(LinkOnDemand, ARankThatSendsIsConnected) {
  const auto links = links_on_demand();
  talk(links, 15, 18, 4711);
  EXPECT_EQ(of(links, 15)->connections(), 2U);
  EXPECT_EQ(of(links, 18)->connections(), 2U);
  EXPECT_EQ(of(links, 14)->connections(), 1U);
  talk(links, 18, 15, 4712);  // on the same connection
  EXPECT_EQ(of(links, 15)->connections(), 2U);
  for (const auto& link : links) EXPECT_FALSE(link->lost().has_value());
}

// Whatever waits for the connection keeps its order, and its memory belongs to whom it should.
TEST(LinkOnDemand, EverythingThatWaitsForAConnectionComesInItsOrder) {
  const auto links = links_on_demand();
  const auto large = pattern(3'000'000, 1);
  const auto small = pattern(100, 2);
  Ears ears(links, 7);
  std::vector<std::unique_ptr<Task>> sends;
  for (int i = 0; i < 5; ++i) {
    const std::string number = std::to_string(i);
    of(links, 12)->notify(19, 7, "notice ", std::as_bytes(std::span(number)));
    sends.push_back(of(links, 12)->send(small.data(), small.size(), 19, {1, 1}));
    sends.push_back(of(links, 12)->send(large.data(), large.size(), 19, {1, 1}));
    const std::string head = "head " + std::to_string(i);
    of(links, 12)->post(19, 8, std::as_bytes(std::span(head)), std::as_bytes(std::span(small)));
  }
  auto gone = std::make_unique<std::vector<unsigned char>>(large);
  of(links, 12)->send(gone->data(), gone->size(), 19, {2, 1}).reset();  // withdrawn
  gone.reset();
  {
    auto detached = pattern(1000, 3);
    EXPECT_TRUE(of(links, 12)->send(detached.data(), detached.size(), 19, {3, 1})->detach());
    std::ranges::fill(detached, static_cast<unsigned char>(0));
  }
  std::vector<unsigned char> in(large.size());
  for (int i = 0; i < 5; ++i) {
    finish(*of(links, 19)->recv(in.data(), small.size(), 12, {1, 1}));
    EXPECT_TRUE(std::equal(small.begin(), small.end(), in.begin()));
    finish(*of(links, 19)->recv(in.data(), large.size(), 12, {1, 1}));
    EXPECT_EQ(in, large);
    std::string call;
    EXPECT_TRUE(eventually([&] { return of(links, 19)->take(12, 8, call); }));
    EXPECT_EQ(call.substr(0, 6), "head " + std::to_string(i));
    EXPECT_EQ(call.size(), 106U);
  }
  finish(*of(links, 19)->recv(in.data(), 1000, 12, {3, 1}));
  EXPECT_TRUE(std::equal(in.begin(), in.begin() + 1000, pattern(1000, 3).begin()));
  for (const auto& send : sends) finish(*send);
  EXPECT_TRUE(eventually([&] { return ears.of(19).size() == 5; }));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ears.of(19)[static_cast<std::size_t>(i)], std::pair(12, "notice " + std::to_string(i)));
}

// Both begin to connect at the same time, all of them with all: one connection each is used by both, and nothing is lost.
TEST(LinkOnDemand, TwoRanksMayConnectWithEachOtherAtTheSameTime) {
  constexpr int count = 12;
  for (int round = 0; round < 8; ++round) {
    const auto links = links_on_demand(count);
    std::atomic<int> ready{0};
    as_ranks(count, [&](int rank) {
      ready.fetch_add(1);
      while (ready.load() < count) std::this_thread::yield();
      std::vector<int> out(count), in(count);
      std::vector<std::unique_ptr<Task>> tasks;
      for (const int other : others_than(rank, count)) {
        const auto i = static_cast<std::size_t>(other);
        out[i] = rank * 100 + other;
        tasks.push_back(of(links, rank)->send(&out[i], sizeof(int), other, {1, 1}));
        tasks.push_back(of(links, rank)->recv(&in[i], sizeof(int), other, {1, 1}));
      }
      for (const auto& task : tasks) finish(*task);
      for (const int other : others_than(rank, count)) EXPECT_EQ(in[static_cast<std::size_t>(other)], other * 100 + rank);
    });
    for (const auto& link : links) {
      EXPECT_FALSE(link->lost().has_value()) << link->lost()->text;
      EXPECT_EQ(link->connections(), static_cast<std::size_t>(count - 1));
    }
  }
}

TEST(LinkOnDemand, TheDeathOfAnInnerRankIsHeardByAllAndCutsNobodyOff) {
  auto links = links_on_demand();
  int in = 0;
  const auto waits = of(links, 19)->recv(&in, sizeof in, 1, {1, 1});  // of a rank that it is not connected with
  links[1].reset();
  EXPECT_TRUE(all_know_the_loss_of(links, 1));
  for (const auto& link : links) {
    if (!link) continue;
    EXPECT_EQ(link->lost()->peer, 1);
    EXPECT_EQ(link->lost()->cause, PeerFailed::disconnected);
    EXPECT_NE(link->lost()->text.find("the connection to rank 1 (127.0.0.1:"), std::string::npos) << link->lost()->text;
    EXPECT_FALSE(link->is_gone(2));
  }
  EXPECT_THROW(finish(*waits), PeerFailed);
  EXPECT_THROW(finish(*of(links, 18)->send(&in, sizeof in, 1, {1, 1})), PeerFailed);  // it is not dialled again
  // Those below it hang on rank 0 now, and what they say comes to all.
  EXPECT_TRUE(eventually([&] { return of(links, 0)->connections() == 7 + 8; }));
  Ears ears(links, 5);
  of(links, 16)->announce(5, others_than(16), "still here", Announcement::leaving);
  for (const int other : others_than(16)) {
    if (other != 1) {
      EXPECT_TRUE(eventually([&] { return ears.of(other).size() == 1; })) << other;
    }
  }
  EXPECT_EQ(ears.of(9), (std::vector<std::pair<int, std::string>>{{16, "still here"}}));
}

TEST(LinkOnDemand, TheFirstRankMayDieAndOneBelowItWithIt) {
  auto links = links_on_demand();
  links[1].reset();
  links[0].reset();
  EXPECT_TRUE(all_know_the_loss_of(links, 0));
  EXPECT_TRUE(all_know_the_loss_of(links, 1));
  Ears ears(links, 5);
  of(links, 16)->announce(5, others_than(16), "still here", Announcement::failure);
  for (int r = 2; r < world; ++r) {
    if (r != 16) {
      EXPECT_TRUE(eventually([&] { return !ears.of(r).empty(); })) << r;
    }
  }
  talk(links, 17, 9, 3);
}

// A rank whose neighbours have all died is missed when the limit of silence has passed, in which the living ones have connected with each other.
TEST(LinkOnDemand, ManyDieAtRandomAndTheOthersHearOfAllOfThem) {
  const ImpatientWithSilence impatient(5s);
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    constexpr int count = 30;
    auto links = links_on_demand(count);
    std::vector<int> dead;
    while (dead.size() < 8) {
      const int rank = static_cast<int>(random() % count);
      if (std::ranges::find(dead, rank) == dead.end()) dead.push_back(rank);
    }
    for (const int rank : dead) links[static_cast<std::size_t>(rank)].reset();
    for (const int rank : dead) EXPECT_TRUE(all_know_the_loss_of(links, rank)) << rank;
    for (int r = 0; r < count; ++r) {
      if (std::ranges::find(dead, r) != dead.end()) continue;
      for (const auto& link : links) EXPECT_FALSE(link && link->is_gone(r)) << r;
    }
  }
}

TEST(LinkOnDemand, AGoodbyeIsHeardByAllAndNoLoss) {
  auto links = links_on_demand();
  int in = 0;
  const auto vain = of(links, 19)->recv(&in, sizeof in, 1, {1, 1});
  links[1]->goodbye(patience);
  links[1].reset();
  EXPECT_TRUE(eventually([&] { return std::ranges::all_of(links, [](const auto& link) { return !link || link->has_left(1); }); }));
  EXPECT_THROW(finish(*vain), PeerFailed);
  EXPECT_TRUE(eventually([&] { return of(links, 0)->connections() == 7 + 8; }));
  Ears ears(links, 5);
  of(links, 12)->announce(5, others_than(12), "to all", Announcement::leaving);
  for (const int other : others_than(12)) {
    if (other != 1) {
      EXPECT_TRUE(eventually([&] { return ears.of(other).size() == 1; })) << other;
    }
  }
  as_ranks(world, [&](int rank) {
    if (rank != 1) of(links, rank)->goodbye(patience);
  });
  for (const auto& link : links) EXPECT_FALSE(link && link->lost().has_value());
}

TEST(LinkOnDemand, WhatWasSentBeforeAGoodbyeArrives) {
  auto links = links_on_demand();
  const auto data = pattern(30'000, 4);
  of(links, 17)->send(data.data(), data.size(), 9, {1, 1})->detach();
  links[17]->goodbye(patience);
  links[17].reset();
  std::vector<unsigned char> in(data.size());
  EXPECT_TRUE(eventually([&] { return of(links, 9)->has_left(17); }));
  finish(*of(links, 9)->recv(in.data(), in.size(), 17, {1, 1}));
  EXPECT_EQ(in, data);
}

TEST(LinkOnDemand, SilenceIsTheSameLossForAll) {
  const ImpatientWithSilence impatient(1500ms);
  // Rank 1 is a neighbour of rank 0 alone, and says nothing after its address.
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::shared_ptr<Link>> links(4);
  const WatchTree tree(link_options(0, 4, nullptr).hosts);
  std::optional<transport::MeetingResult> hand;
  as_ranks(4, [&](int rank) {
    auto options = link_options(rank, 4, store);
    options.most_eager = 0;
    if (rank != 1) {
      links[static_cast<std::size_t>(rank)] = Link::connect(options);
      return;
    }
    hand.emplace(transport::meet(options, &tree));
    transport::FrameCodes codes(hand->connections.at(0).keys.sending);
    base::ByteWriter entry;
    entry.put(std::uint8_t{1}).put(std::uint32_t{1}).text("127.0.0.1 " + std::to_string(hand->acceptor->port()));
    const std::string payload = entry.take();
    const transport::FrameHead head{.kind = transport::FrameKind::notice,
                                    .length = static_cast<std::uint32_t>(payload.size()),
                                    .group = base::stable_hash("addresses of the link")};
    auto bytes = transport::to_bytes(head);
    codes.seal(bytes, head, std::as_bytes(std::span(payload)));
    const std::string frame = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + payload;
    ASSERT_EQ(base::send(hand->connections.at(0).fd.get(), hand->connections.at(0).tls.get(), frame.data(), frame.size()),
              static_cast<ssize_t>(frame.size()));
  });
  char byte = 0;
  const auto waits = links[3]->recv(&byte, 1, 1, {1, 1});
  EXPECT_TRUE(all_know_the_loss_of(links, 1));
  for (const int r : {0, 2, 3}) {
    EXPECT_EQ(of(links, r)->lost()->cause, PeerFailed::silent);
    EXPECT_NE(of(links, r)->lost()->text.find("nothing has come from rank 1"), std::string::npos);
  }
  EXPECT_THROW(finish(*waits), PeerFailed);
}

}  // namespace
}  // namespace unisono::testing

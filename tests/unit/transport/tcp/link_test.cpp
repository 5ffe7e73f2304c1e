// Messages and notices between ranks that are threads, each with a link of its own on the loopback device.
#include "transport/tcp/link.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>

#include "covers.h"
#include "link_testing.h"

namespace unisono::testing {
namespace {

constexpr std::size_t kib = 1024;

TEST(Link, EveryPairExchangesEverySize) {
  COVERS("T-45");
  const int ranks = 4;
  const auto links = make_links(ranks);
  const std::size_t sizes[] = {0, 1, 8, 1000, 64 * kib - 1, 64 * kib, 64 * kib + 1, 256 * kib, 256 * kib + 1, 1024 * kib, 3 * 1024 * kib + 17};
  as_ranks(ranks, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(rank)];
    for (const std::size_t size : sizes) {
      std::vector<std::vector<unsigned char>> sent(ranks), received(ranks);
      std::vector<std::unique_ptr<Task>> tasks;
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        const auto i = static_cast<std::size_t>(peer);
        sent[i] = pattern(size, static_cast<unsigned>(rank * 10 + peer));
        received[i].resize(size);
        tasks.push_back(link->send(sent[i].data(), size, peer, {7, static_cast<std::uint32_t>(peer + rank) % 2}));
        tasks.push_back(link->recv(received[i].data(), size, peer, {7, static_cast<std::uint32_t>(peer + rank) % 2}));
      }
      for (const auto& task : tasks) finish(*task);
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ(received[static_cast<std::size_t>(peer)], pattern(size, static_cast<unsigned>(peer * 10 + rank))) << size;
      }
    }
  });
}

TEST(Link, ChannelsDoNotWaitForEachOther) {
  const auto links = make_links(2);
  constexpr std::size_t channels = 40;
  const auto size_of = [](std::size_t c) { return c % 3 == 0 ? 200 * kib + c : c % 3 == 1 ? c : 60 * kib; };
  as_ranks(2, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(rank)];
    std::vector<std::vector<unsigned char>> data(channels);
    std::vector<std::unique_ptr<Task>> tasks(channels);
    // More than the receiver keeps unreceived; it asks for the last one first, and for each only once the one before it is there.
    for (std::size_t i = 0; i < channels; ++i) {
      const std::size_t c = rank == 0 ? i : channels - 1 - i;
      data[c] = rank == 0 ? pattern(size_of(c), static_cast<unsigned>(c)) : std::vector<unsigned char>(size_of(c));
      const transport::Link::ChannelKey key{99 + c % 2, static_cast<std::uint32_t>(c)};
      tasks[c] = rank == 0 ? link->send(data[c].data(), data[c].size(), 1, key) : link->recv(data[c].data(), data[c].size(), 0, key);
      if (rank == 1) finish(*tasks[c]);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      if (rank == 0) finish(*tasks[c]);
      EXPECT_EQ(data[c], pattern(size_of(c), static_cast<unsigned>(c)));
    }
  });
}

TEST(Link, OrderIsKeptWithinAChannel) {
  const auto links = make_links(2);
  constexpr int count = 400;
  const auto size_of = [](int i) { return i % 7 == 0 ? 70 * kib : static_cast<std::size_t>(i) * 31 % (20 * kib); };
  as_ranks(2, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(rank)];
    std::vector<std::vector<unsigned char>> data;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < count; ++i) {
      data.push_back(rank == 0 ? pattern(size_of(i), static_cast<unsigned>(i)) : std::vector<unsigned char>(size_of(i)));
      tasks.push_back(rank == 0 ? link->send(data.back().data(), data.back().size(), 1, {1, 1})
                                : link->recv(data.back().data(), data.back().size(), 0, {1, 1}));
    }
    for (int i = count - 1; i >= 0; --i) finish(*tasks[static_cast<std::size_t>(i)]);
    for (int i = 0; i < count; ++i) EXPECT_EQ(data[static_cast<std::size_t>(i)], pattern(size_of(i), static_cast<unsigned>(i))) << i;
  });
}

TEST(Link, BothDirectionsMoveAtOnceWhateverTheOrder) {
  const auto links = make_links(2);
  constexpr std::size_t size = 24 * 1024 * kib;
  for (const bool send_first : {true, false}) {
    as_ranks(2, [&](int rank) {
      const auto& link = links[static_cast<std::size_t>(rank)];
      const auto out = pattern(size, static_cast<unsigned>(rank));
      std::vector<unsigned char> in(size);
      std::unique_ptr<Task> send;
      std::unique_ptr<Task> recv;
      if (send_first) send = link->send(out.data(), size, 1 - rank, {3, 0});
      recv = link->recv(in.data(), size, 1 - rank, {3, 0});
      if (!send_first) send = link->send(out.data(), size, 1 - rank, {3, 0});
      finish(*(send_first ? send : recv));
      finish(*(send_first ? recv : send));
      EXPECT_EQ(in, pattern(size, static_cast<unsigned>(1 - rank)));
    });
  }
}

TEST(Link, SmallMessagesLeaveWithoutAReceiveUntilThereIsNoRoom) {
  const auto links = make_links(2);
  const auto data = pattern(16 * kib, 5);
  std::vector<std::unique_ptr<Task>> sends;
  for (int i = 0; i < 200; ++i) sends.push_back(links[0]->send(data.data(), data.size(), 1, {1, 2}));
  for (int i = 0; i < 63; ++i) EXPECT_TRUE(sends[static_cast<std::size_t>(i)]->advance()) << i;
  EXPECT_FALSE(sends.back()->advance());  // 3 MiB: held back
  for (int i = 0; i < 200; ++i) {
    std::vector<unsigned char> in(data.size());
    const auto recv = links[1]->recv(in.data(), in.size(), 0, {1, 2});
    EXPECT_TRUE(eventually([&] {
      links[0]->poll();
      return recv->advance();
    }));
    EXPECT_EQ(in, data);
  }
  for (const auto& send : sends) finish(*send);
  const auto again = links[0]->send(data.data(), data.size(), 1, {1, 2});
  EXPECT_TRUE(again->advance());  // there is room again
}

TEST(Link, NobodyPollsAndTheThreadMovesEverything) {
  struct Notifier {
    std::mutex mutex;
    std::condition_variable condition;
    int notified = 0;
  };
  Notifier notifiers[2];
  const auto links = make_links(2, [&](Link::Options& options) {
    Notifier& notifier = notifiers[options.rank];
    options.notify = [&notifier] {
      const std::lock_guard lock(notifier.mutex);
      ++notifier.notified;
      notifier.condition.notify_all();
    };
    options.has_waiter = [] { return true; };
  });
  as_ranks(2, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(rank)];
    Notifier& notifier = notifiers[rank];
    for (const std::size_t size : {std::size_t{8}, 5 * 1024 * kib}) {
      const auto out = pattern(size, static_cast<unsigned>(rank));
      std::vector<unsigned char> in(size);
      const auto send = link->send(out.data(), size, 1 - rank, {3, 0});
      const auto recv = link->recv(in.data(), size, 1 - rank, {3, 0});
      for (;;) {
        std::unique_lock lock(notifier.mutex);
        const int before = notifier.notified;
        lock.unlock();
        // A task polls, which the thread must be able to do without.
        if (send->advance() && recv->advance()) break;
        lock.lock();
        ASSERT_TRUE(notifier.condition.wait_for(lock, patience, [&] { return notifier.notified != before; }));
      }
      EXPECT_EQ(in, pattern(size, static_cast<unsigned>(1 - rank)));
    }
  });
}

TEST(Link, SeveralThreadsOfARankUseItAtOnce) {
  const auto links = make_links(2);
  constexpr int threads = 4;
  as_ranks(2 * threads, [&](int who) {
    const int rank = who % 2;
    const auto channel = static_cast<std::uint32_t>(who / 2);
    const auto& link = links[static_cast<std::size_t>(rank)];
    for (unsigned i = 0; i < 60; ++i) {
      const std::size_t size = i % 10 == 0 ? 300 * kib : i * 13;
      const auto out = pattern(size, i * 100 + static_cast<unsigned>(who));
      std::vector<unsigned char> in(size);
      const auto recv = link->recv(in.data(), size, 1 - rank, {1, channel});
      const auto send = link->send(out.data(), size, 1 - rank, {1, channel});
      finish(*send);
      finish(*recv);
      EXPECT_EQ(in, pattern(size, i * 100 + static_cast<unsigned>(who % 2 == 0 ? who + 1 : who - 1)));
    }
  });
}

TEST(Link, AReceiveOfAnotherLengthIsAnErrorOnBothSidesThatCanBe) {
  const auto links = make_links(2);
  const auto data = pattern(100 * kib, 1);
  std::vector<unsigned char> in(200 * kib);
  const auto small = links[0]->send(data.data(), 10, 1, {1, 1});
  EXPECT_TRUE(small->advance());
  const auto large = links[0]->send(data.data(), data.size(), 1, {1, 1});
  const auto good = links[0]->send(data.data(), data.size(), 1, {1, 1});
  EXPECT_THROW(finish(*links[1]->recv(in.data(), 11, 0, {1, 1})), ProtocolError);
  EXPECT_THROW(finish(*links[1]->recv(in.data(), data.size() + 1, 0, {1, 1})), ProtocolError);
  EXPECT_THROW(finish(*large), ProtocolError);
  const auto recv = links[1]->recv(in.data(), data.size(), 0, {1, 1});
  finish(*recv);
  finish(*good);
  in.resize(data.size());
  EXPECT_EQ(in, data);
  // The rank that waited first is told as well.
  const auto early = links[1]->recv(in.data(), 20, 0, {1, 2});
  finish(*links[0]->send(data.data(), 21, 1, {1, 2}));
  EXPECT_THROW(finish(*early), ProtocolError);
}

TEST(Link, ATaskThatIsDestroyedLeavesItsMemoryAlone) {
  const auto links = make_links(2);
  constexpr std::size_t size = 8 * 1024 * kib;
  {
    auto out = pattern(size, 1);
    auto in = std::make_unique<std::vector<unsigned char>>(size);
    auto send = links[0]->send(out.data(), size, 1, {1, 1});
    auto recv = links[1]->recv(in->data(), size, 0, {1, 1});
    for (int i = 0; i < 3; ++i) {
      links[0]->poll();
      links[1]->poll();
    }
    recv.reset();  // in the middle of it
    in.reset();
    finish(*send);
  }
  {
    const auto sent = pattern(size, 2);
    auto out = std::make_unique<std::vector<unsigned char>>(sent);
    std::vector<unsigned char> in(size);
    auto send = links[0]->send(out->data(), size, 1, {1, 1});
    auto recv = links[1]->recv(in.data(), size, 0, {1, 1});
    links[1]->poll();
    links[0]->poll();
    links[0]->poll();
    const bool all_sent = send->advance();
    send.reset();
    out.reset();
    // Whole where its last frame had begun; else it fails, and never is a part of it taken for all.
    try {
      finish(*recv);
      EXPECT_EQ(in, sent);
    } catch (const PeerFailed&) {
      EXPECT_FALSE(all_sent);
    }
  }
  auto never = links[1]->recv(nullptr, 0, 0, {5, 5});
  never.reset();
  const auto data = pattern(3 * size, 9);
  std::vector<unsigned char> in(data.size());
  const auto recv = links[1]->recv(in.data(), in.size(), 0, {1, 1});
  const auto send = links[0]->send(data.data(), data.size(), 1, {1, 1});
  finish(*recv);
  finish(*send);
  EXPECT_EQ(in, data);  // what goes on does not notice
}

TEST(Link, ADetachedSendNeedsItsMemoryNoMore) {
  const auto links = make_links(2);
  constexpr std::size_t size = 3 * 1024 * kib;
  {
    auto out = pattern(size, 4);
    const auto send = links[0]->send(out.data(), size, 1, {1, 1});
    EXPECT_TRUE(send->detach());
    std::fill(out.begin(), out.end(), static_cast<unsigned char>(0));
  }
  std::vector<unsigned char> in(size);
  finish(*links[1]->recv(in.data(), size, 0, {1, 1}));
  EXPECT_EQ(in, pattern(size, 4));
}

TEST(Link, AGroupThatIsOverDisturbsNoOther) {
  const auto links = make_links(2);
  const auto data = pattern(30 * kib, 3);
  const auto large = pattern(500 * kib, 3);
  std::vector<unsigned char> in(large.size());
  for (int i = 0; i < 30; ++i) finish(*links[0]->send(data.data(), data.size(), 1, {66, 0}));  // nearly all the room there is
  const auto stuck = links[0]->send(large.data(), large.size(), 1, {66, 1});
  const auto waiting = links[1]->recv(in.data(), in.size(), 0, {66, 9});
  const auto other = links[1]->recv(in.data(), in.size(), 0, {67, 1});
  links[1]->end(66);
  EXPECT_THROW(finish(*waiting), PeerFailed);
  EXPECT_THROW(finish(*stuck), PeerFailed);
  EXPECT_THROW(finish(*links[1]->send(data.data(), 5, 0, {66, 0})), PeerFailed);
  for (int i = 0; i < 200; ++i) {  // dropped, or refused where there was no room at that moment
    const auto vain = links[0]->send(data.data(), data.size(), 1, {66, 0});
    try {
      finish(*vain);
    } catch (const PeerFailed& error) {
      EXPECT_NE(error.message().find("the group is over at rank 1"), std::string::npos);
    }
  }
  const auto send = links[0]->send(large.data(), large.size(), 1, {67, 1});
  finish(*other);
  finish(*send);
  EXPECT_EQ(in, large);
}

TEST(Link, NoticesKeepTheirOrderAndWaitForAListener) {
  const auto links = make_links(3);
  constexpr int count = 500;
  for (int i = 0; i < count; ++i) {
    links[0]->notify(2, 11, "early " + std::to_string(i));
    links[1]->notify(2, 12, std::to_string(i));
  }
  std::vector<std::string> heard;
  std::atomic<int> received{0};
  links[2]->listen(11, [&](int peer, std::string_view text) {
    EXPECT_EQ(peer, 0);
    heard.emplace_back(text);
    received.fetch_add(1);
    links[2]->notify(0, 13, text);  // allowed within a listener
  });
  EXPECT_TRUE(eventually([&] {
    links[2]->poll();
    return received.load() == count;
  }));
  links[2]->listen(11, {});
  for (int i = 0; i < count; ++i) EXPECT_EQ(heard[static_cast<std::size_t>(i)], "early " + std::to_string(i));
  links[0]->notify(2, 11, "nobody listens");
  std::atomic<int> answers{0};
  links[0]->listen(13, [&](int, std::string_view) { answers.fetch_add(1); });
  EXPECT_TRUE(eventually([&] { return answers.load() == count; }));  // the thread alone
  EXPECT_EQ(received.load(), count);
}

TEST(Link, RanksOfOneHostAreConnectedWhereAsked) {
  const auto store = std::make_shared<MemoryStore>();
  for (const bool all : {false, true}) {
    std::vector<std::shared_ptr<Link>> links(3);
    as_ranks(3, [&](int rank) {
      auto options = link_options(rank, 3, std::make_shared<PrefixStore>(all ? "all/" : "others/", store));
      options.hosts = {0, 0, 1};
      options.all = all;
      links[static_cast<std::size_t>(rank)] = Link::connect(options);
    });
    EXPECT_EQ(links[0]->address_of(1).empty(), !all);
    EXPECT_EQ(links[0]->address_of(2).find("127.0.0.1:"), 0U);
    int value = 4;
    if (all) {
      finish(*links[0]->send(&value, sizeof value, 1, {1, 1}));
    } else {
      EXPECT_THROW(links[0]->send(&value, sizeof value, 1, {1, 1}), InvalidArgument);
    }
  }
  Link::Options alone = link_options(1, 2, nullptr);
  alone.hosts = {0, 0};
  alone.address = "no address at all";  // nobody listens, nobody connects
  Link::connect(alone)->poll();
}

}  // namespace
}  // namespace unisono::testing

#include "messages.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <thread>

#include "unisono/error.h"

// Channels between ranks that are threads of this process.

namespace unisono::testing {
namespace {

// Around the lengths at which UCX goes over to another protocol.
constexpr std::size_t lengths[] = {0, 1, 8, 99, 4096, 8191, 8192, 65'537, 262'144, 1'000'003, std::size_t{5} << 20};

TEST(Messages, MessagesOfAnyLengthArrive) {
  with_engines(3, [](Engine& engine, int rank) {
    const int to = (rank + 1) % 3, from = (rank + 2) % 3;
    for (const std::size_t bytes : lengths) {
      const auto own = pattern(bytes, static_cast<std::uint32_t>(rank));
      std::vector<std::uint8_t> theirs(bytes);
      const auto receiving = engine.start_recv(theirs.data(), bytes, from, 0);
      const auto sending = engine.start_send(own.data(), bytes, to, 0);
      EXPECT_EQ(receiving->waiting_for(), std::vector<int>{from});
      finish(*receiving);
      finish(*sending);
      EXPECT_EQ(theirs, pattern(bytes, static_cast<std::uint32_t>(from))) << bytes;
    }
  });
}

TEST(Messages, MessagesOfOneChannelKeepTheirOrder) {
  with_engines(2, [](Engine& engine, int rank) {
    std::deque<std::vector<std::uint8_t>> all;
    std::deque<std::unique_ptr<Task>> tasks;
    for (std::uint32_t i = 0; i < 60; ++i) {
      const std::size_t bytes = lengths[i % std::size(lengths)];
      all.push_back(rank == 0 ? pattern(bytes, i) : std::vector<std::uint8_t>(bytes));
      if (rank == 0) tasks.push_back(engine.start_send(all.back().data(), bytes, 1, 5));
      else tasks.push_back(engine.start_recv(all.back().data(), bytes, 0, 5));
    }
    for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) finish(**task);  // in any order
    for (std::uint32_t i = 0; i < 60; ++i) EXPECT_EQ(all[i], pattern(lengths[i % std::size(lengths)], i)) << i;
  });
}

TEST(Messages, MessagesOfOneChannelDoNotWaitForAnother) {
  with_engines(2, [](Engine& engine, int rank) {
    const std::uint32_t last = engine.largest_channel();
    EXPECT_GE(last, 32767U);
    if (rank == 0) {
      const auto early = pattern(std::size_t{3} << 20, 1), late = pattern(77, 2);
      const auto first = engine.start_send(early.data(), early.size(), 1, 3);
      const auto second = engine.start_send(late.data(), late.size(), 1, last);
      finish(*second);
      EXPECT_EQ(receive_bytes(engine, 1, 1, 4), pattern(1, 9));  // the other rank has what came later
      finish(*first);
    } else {
      EXPECT_EQ(receive_bytes(engine, 77, 0, last), pattern(77, 2));
      send_bytes(engine, pattern(1, 9), 0, 4);
      EXPECT_EQ(receive_bytes(engine, std::size_t{3} << 20, 0, 3), pattern(std::size_t{3} << 20, 1));
    }
  });
}

TEST(Messages, MessagesThatNobodyWantsAreDropped) {
  with_engines(2, [](Engine& engine, int rank) {
    for (const std::size_t bytes : lengths) {
      if (rank == 0) {
        send_bytes(engine, pattern(bytes, 1), 1);
        send_bytes(engine, pattern(9, 2), 1);
      } else {
        finish(*engine.start_discard(bytes, 0, 0));
        EXPECT_EQ(receive_bytes(engine, 9, 0), pattern(9, 2)) << bytes;
      }
    }
  });
}

// Both sides name the same length; a program that does not gets an error, and no memory beyond the receiver's is written.
TEST(Messages, MessagesOfAnotherLengthAreAnError) {
  with_engines(2, [](Engine& engine, int rank) {
    const struct {
      std::size_t sent, expected;
      const char* text;
    } cases[] = {
        {10, 9, "more than the 9 bytes"}, {9, 10, "9 bytes where 10"}, {1 << 20, 1 << 19, "more than the 524288 bytes"}, {0, 1, "0 bytes where 1"}};
    for (const auto& one : cases) {
      if (rank == 0) {
        send_bytes(engine, pattern(one.sent, 1), 1);
        continue;
      }
      std::vector<std::uint8_t> memory(one.expected + 64, 0xAB);
      const std::string text = error_of([&] { finish(*engine.start_recv(memory.data(), one.expected, 0, 0)); });
      EXPECT_NE(text.find(one.text), std::string::npos) << text;
      for (std::size_t i = one.expected; i < memory.size(); ++i) ASSERT_EQ(memory[i], 0xAB) << i;
    }
  });
}

TEST(Messages, MessagesHaveOtherRanksAsTheirEnds) {
  with_engines(2, [](Engine& engine, int rank) {
    std::uint8_t byte = 0;
    for (const int peer : {rank, -1, 2}) {
      EXPECT_THROW(engine.start_send(&byte, 1, peer, 0), InvalidArgument);
      EXPECT_THROW(engine.start_recv(&byte, 1, peer, 0), InvalidArgument);
    }
  });
}

// Messages under way are advanced by another thread while the program calls a collective.
TEST(Messages, MessagesAreAdvancedByAnyThread) {
  with_engines(2, [](Engine& engine, int rank) {
    const auto exchange = [&](std::uint32_t channel) {
      for (std::uint32_t i = 0; i < 200; ++i) {
        const std::size_t bytes = lengths[(i + channel) % 8];
        const auto own = pattern(bytes, i + channel);
        std::vector<std::uint8_t> theirs(bytes);
        const auto receiving = engine.start_recv(theirs.data(), bytes, 1 - rank, channel);
        const auto sending = engine.start_send(own.data(), bytes, 1 - rank, channel);
        finish(*sending);
        finish(*receiving);
        ASSERT_EQ(theirs, own);
      }
    };
    const std::jthread other([&] { exchange(1); });
    exchange(0);
  });
}

// A rank that has sent goes on computing, or waits in another group: nobody calls its worker, and what it has sent leaves it nevertheless.
TEST(Messages, MessagesLeaveWithoutTheSendersHelp) {
  for (int round = 0; round < 20; ++round) {
    std::promise<void> received;
    const std::shared_future<void> after = received.get_future().share();
    with_engines(2, [&](Engine& engine, int rank) {
      constexpr std::uint32_t count = 300;
      constexpr std::size_t bytes = 7000;  // copied by UCX, and together more than the connections hold
      for (std::uint32_t i = 0; i < count; ++i) {
        if (rank == 0) send_bytes(engine, pattern(bytes, i), 1);
        else ASSERT_EQ(receive_bytes(engine, bytes, 0), pattern(bytes, i));
      }
      if (rank == 0) after.wait();
      else received.set_value();
    });
  }
}

TEST(Messages, MessagesOfSeveralGroupsDoNotMix) {
  constexpr int groups = 4;
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      std::vector<std::unique_ptr<Engine>> engines;
      for (int g = 0; g < groups; ++g) {
        EngineOptions options = options_of(rank, 2, std::make_shared<PrefixStore>("group" + std::to_string(g) + "/", store));
        options.key = "group" + std::to_string(g);
        engines.push_back(engine_plugin().make(options));
      }
      // The same channel in all of them, received in the other order.
      std::vector<std::vector<std::uint8_t>> sent;
      std::vector<std::unique_ptr<Task>> tasks;
      for (std::uint32_t g = 0; g < groups; ++g) sent.push_back(pattern(1000, g));
      for (std::uint32_t g = 0; g < groups && rank == 0; ++g) tasks.push_back(engines[g]->start_send(sent[g].data(), 1000, 1, 6));
      while (std::erase_if(tasks, [](const auto& task) { return task->advance(); }) != 0 || !tasks.empty()) std::this_thread::yield();
      for (std::uint32_t g = groups; g-- > 0 && rank == 1;) EXPECT_EQ(receive_bytes(*engines[g], 1000, 0, 6), sent[g]);
      // One of them ends; the others go on.
      engines[1]->abort({.message = "enough"});
      for (const std::uint32_t g : {0U, 2U, 3U}) {
        if (rank == 0) send_bytes(*engines[g], pattern(std::size_t{1} << 20, g), 1);
        else EXPECT_EQ(receive_bytes(*engines[g], std::size_t{1} << 20, 0), pattern(std::size_t{1} << 20, g));
      }
      EXPECT_NE(error_of([&] { engines[1]->start_send(nullptr, 0, 1 - rank, 0); }).find("enough"), std::string::npos);
      for (const auto& engine : engines) engine->leave();
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace unisono::testing

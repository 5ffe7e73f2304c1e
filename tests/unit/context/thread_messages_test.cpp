// Messages between ranks that are threads: more than fit between two, those that do not fit, and whose they are.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <optional>
#include <string>
#include <vector>

#include "unisono/launch.h"
#include "unisono/unisono.h"

using namespace unisono;

namespace {

// Sends are done as long as there is room; then they wait, and nothing of what waits to be read is lost.
TEST(ThreadMessages, MoreMessagesThanFitPassBetweenTwo) {
  constexpr int messages = 12000;  // 16 bytes each with nothing in them, and the ring has 128 KiB
  run_threads(2, [&](int rank) {
    if (rank == 0) {
      std::vector<Work> sent;
      for (int i = 0; i < messages; ++i) sent.push_back(isend(std::vector<int>(static_cast<std::size_t>(i % 2), i), 1, world(), {.tag = i % 3}));
      send(std::vector<int>{7}, 1, world(), {.tag = 3});
      wait_all(sent);
    } else {
      for (int i = 0; i < messages; ++i) {
        std::vector<int> x(static_cast<std::size_t>(i % 2));
        recv(x, 0, world(), {.tag = i % 3});
        if (i % 2 == 1) {
          ASSERT_EQ(x[0], i);
        }
      }
      std::vector<int> last(1);
      recv(last, 0, world(), {.tag = 3});
      EXPECT_EQ(last[0], 7);
    }
    barrier();
  });
}

TEST(ThreadMessages, AMessageOfAnotherLengthIsShown) {
  run_threads(2, [](int rank) {
    const auto text_of = [](auto&& call) {
      try {
        call();
      } catch (const Mismatch& error) {
        return error.message();
      }
      return std::string("nothing");
    };
    if (rank == 0) {
      send(std::vector<int>(3), 1);
      send(std::vector<std::uint8_t>(5), 1);
      send(std::vector<double>(1), 1);
    } else {
      std::vector<int> numbers(2);
      EXPECT_EQ(text_of([&] { recv(numbers, 0); }), "rank 0 sent int32 × 3, but the receive is of int32 × 2");
      std::vector<std::uint8_t> bytes(4);
      EXPECT_EQ(text_of([&] { recv(bytes, 0); }), "rank 0 sent uint8 × 5, but the receive is of uint8 × 4");
      std::vector<float> none;
      EXPECT_EQ(text_of([&] { recv(none, 0); }), "rank 0 sent float64 × 1, but the receive is of float32 × 0");
    }
    barrier();
  });
}

// A part of it is aside by then.
TEST(ThreadMessages, OneThatIsStillComingIsRefusedToo) {
  run_threads(2, [](int rank) {
    std::vector<int> many(std::size_t{1} << 20, 7), few(3, 1);
    if (rank == 0) {
      Work sent = isend(many, 1);
      sent.wait();
    } else {
      EXPECT_EQ(probe(0).count, many.size());
      EXPECT_THROW(recv(few, 0), Mismatch);
      EXPECT_EQ(few, std::vector<int>(3, 1));
    }
    barrier();
  });
}

struct Tells {
  std::latch& latch;
  ~Tells() { latch.count_down(); }
};

// A message that another rank has sent, or that waits to be asked for, answers no call for this rank's.
TEST(ThreadMessages, AProbeOfOneRankFindsNothingOfAnother) {
  run_threads(3, [](int rank) {
    std::vector<std::uint8_t> x{static_cast<std::uint8_t>(rank)};
    if (rank == 1) send(x, 2);
    if (rank == 0) {
      std::vector<std::uint8_t> go(1);
      recv(go, 2);
      send(x, 2);
    }
    if (rank == 2) {
      EXPECT_EQ(probe(any_source).source, 1);
      send(x, 0);
      EXPECT_EQ(probe(0).source, 0);
      recv(x, 0);
      EXPECT_EQ(x[0], 0);
      recv(x, 1);
      EXPECT_EQ(x[0], 1);
    }
    barrier();
  });
}

TEST(ThreadMessages, ARankThatWaitsForAMessageSaysFromWhom) {
  using From = std::vector<int>;
  for (const int way : {0, 1, 2, 3, 5}) {
    std::latch told(1);
    run_threads(3, [&](int rank) {
      if (rank != 1) return told.wait();
      const Tells at_the_end{told};
      const CallOptions briefly{.timeout = std::chrono::milliseconds(100)};
      std::vector<int> x(1);
      try {
        if (way == 0) recv(x, any_source, world(), briefly);
        if (way == 1) recv(x, 0, world(), briefly);
        if (way == 2) static_cast<void>(probe(any_source, world(), briefly));
        if (way == 3) static_cast<void>(probe(0, world(), briefly));
        if (way == 5) send(std::vector<int>(std::size_t{1} << 20), 0, world(), briefly);
        ADD_FAILURE() << "went through";
      } catch (const Timeout& error) {
        EXPECT_EQ(error.missing(), way % 2 == 0 ? (From{0, 2}) : From{0});
        EXPECT_EQ(error.culprit(), way % 2 == 0 ? std::nullopt : std::optional(0));
      }
    });
  }
}

}  // namespace

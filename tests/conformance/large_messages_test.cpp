// Messages that do not fit between two ranks, again and again: from the second one on a rank may read the other's memory where it lies.
#include <cstddef>
#include <vector>

#include "world.h"

using namespace unisono;
using conformance::difference;
using conformance::value;
using conformance::values;

namespace {

constexpr std::size_t n = 50'000;  // elements
constexpr int rounds = 4;

int right() { return (rank() + 1) % world_size(); }
int left() { return (rank() + world_size() - 1) % world_size(); }

}  // namespace

MANY_TEST(LargeMessages, LargeMessagesAreReceivedInAnyOrderOfTags) {
  for (int round = 0; round < rounds; ++round) {
    const auto first = values<float>(n + static_cast<std::size_t>(round), rank()), second = values<float>(n, rank() + 8);
    Work sent = isend(first, right(), world(), {.tag = 1}), sent_too = isend(second, right(), world(), {.tag = 2});
    std::vector<float> x(n), y(first.size());
    recv(x, left(), world(), {.tag = 2});
    EXPECT_EQ(difference(x, values<float>(n, left() + 8)), "") << round;
    EXPECT_EQ(probe(left(), world(), {.tag = 1}).count, y.size());
    EXPECT_EQ(recv(y, any_source, world(), {.tag = 1}), left());
    EXPECT_EQ(difference(y, values<float>(y.size(), left())), "") << round;
    sent.wait();
    sent_too.wait();
  }
}

// A sender that has its memory back changes it at once.
MANY_TEST(LargeMessages, LargeMessagesKeepTheOrderAmongSmallOnes) {
  std::vector<float> x(n), y(n), small(3);
  for (int round = 0; round < rounds; ++round) {
    Work received = irecv(y, left());
    x.assign(n, value<float>(rank(), static_cast<std::size_t>(round)));
    Work sent = isend(x, right());
    send(std::vector<float>(3, static_cast<float>(round)), right());
    sent.wait();
    x.assign(n, -1);
    recv(small, left());
    received.wait();
    EXPECT_EQ(small[2], static_cast<float>(round));
    EXPECT_EQ(difference(y, std::vector<float>(n, value<float>(left(), static_cast<std::size_t>(round)))), "") << round;
  }
}

MANY_TEST(LargeMessages, LargeMessagesThatAreRefusedLeaveTheNextOnes) {
  for (int round = 0; round < rounds; ++round) {
    const auto x = values<float>(n, rank());
    Work wrong = isend(x, right()), sent = isend(x, right());
    std::vector<float> few(n - 1, 7), y(n);
    EXPECT_THROW(recv(few, left()), Mismatch);
    EXPECT_EQ(difference(few, std::vector<float>(n - 1, 7)), "");
    recv(y, left());
    EXPECT_EQ(difference(y, values<float>(n, left())), "") << round;
    wrong.wait();
    sent.wait();
  }
}

MANY_TEST(LargeMessages, LargeMessagesPassInBothDirectionsInWindows) {
  constexpr std::size_t window = 70;  // more than one pair has places for
  if (rank() / 2 * 2 + 1 >= world_size()) return;
  const int partner = rank() ^ 1;
  const auto x = values<float>(n, rank());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<float>> all(window, std::vector<float>(n));
    std::vector<Work> works;
    for (auto& y : all) works.push_back(irecv(y, partner));
    for (std::size_t i = 0; i < window; ++i) works.push_back(isend(x, partner));
    wait_all(works);
    for (const auto& y : all) ASSERT_EQ(difference(y, values<float>(n, partner)), "");
  }
}

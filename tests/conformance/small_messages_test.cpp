// More small messages than anybody keeps for a receiver that does not come.
#include <algorithm>
#include <vector>

#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

// They wait at their sender, and none overtakes another of the same tag. A message of another tag behind them
// comes through where its receiver waits for it.
MANY_TEST(SmallMessages, SmallMessagesWaitInOrder) {
  constexpr int messages = sanitized ? 700 : 3000;
  const auto length = [](int i) { return i % 7 == 6 ? std::size_t{3000} : std::size_t{1024} - static_cast<std::size_t>(i % 3); };
  const int n = world_size(), next = (rank() + 1) % n, previous = (rank() + n - 1) % n;
  for (int i = 0; i < messages; ++i) {
    auto x = values<float>(length(i), rank() + i);
    send(x, next, world(), {.tag = 1});
    std::fill(x.begin(), x.end(), -1.0F);
  }
  send(rank(), next, world(), {.tag = 2});
  EXPECT_EQ(recv<int>(previous, world(), {.tag = 2}), previous);
  for (int i = 0; i < messages; ++i) {
    std::vector<float> x(length(i));
    EXPECT_EQ(recv(x, any_source, world(), {.tag = 1}), previous);
    ASSERT_EQ(difference(x, values<float>(length(i), previous + i)), "") << "message " << i;
  }
}

// Small sends of which nobody takes one end at their deadline, whether their callers wait or have gone on.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 3, .poisons = true}), SmallMessages, SmallMessagesEndAtTheirDeadline) {
  barrier();
  const std::vector<float> x(1000, 1.0F);
  const int next = (rank() + 1) % world_size();
  const auto error = thrown_by<Timeout>([&] {
    for (int i = 0; i < 100'000; ++i) send(x, next, world(), {.timeout = 500ms});
  });
  EXPECT_EQ(error.missing().size(), 1U);
  EXPECT_EQ(error.operation(), "send");
}

}  // namespace

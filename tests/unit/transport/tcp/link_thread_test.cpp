// Which thread reads what comes on a link's sockets.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "link_testing.h"

namespace unisono::testing {
namespace {

// The thread reads what comes while no caller does. It would do so for ever if it did not learn of a caller that finds everything read already.
TEST(Link, ACallerThatNeverHasToPollHasTheSocketsForItself) {
  const auto links = make_links(2);
  constexpr std::uint64_t group = 7;
  const std::array<std::byte, 1> data{};
  std::string taken;
  bool is_left_alone = false;
  for (const base::Deadline deadline(10s); !is_left_alone && !deadline.passed();) {
    links[0]->post(1, group, {}, data);
    is_left_alone = !eventually([&] { return links[1]->take(0, group, taken); }, 5ms);
  }
  ASSERT_TRUE(is_left_alone);
  EXPECT_TRUE(eventually([&] {
    links[1]->poll();
    return links[1]->take(0, group, taken);
  }));
}

}  // namespace
}  // namespace unisono::testing

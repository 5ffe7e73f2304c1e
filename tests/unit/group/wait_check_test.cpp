// What is looked at while a call is waited for.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "group/group.h"
#include "group/progress/waiter.h"
#include "unisono/launch.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// A task that is never done, and that waits for these ranks one after the other: each list is given once, the last one for good.
class Waiting final : public Task {
 public:
  explicit Waiting(std::vector<std::vector<int>> lists) : lists_(std::move(lists)) {}
  bool advance() override { return false; }
  std::vector<int> waiting_for() const override { return lists_[asked_ + 1 < lists_.size() ? asked_++ : asked_]; }

 private:
  const std::vector<std::vector<int>> lists_;
  mutable std::size_t asked_ = 0;
};

std::optional<Failure> look(const Task& task, const base::Deadline& deadline) {
  bool warned = false;
  return group::WaitCheck{"all_reduce", 7, deadline, {}, warned}.look(world().implementation()->errors(), task);
}

// Rank 1 has left by the time of a look. It counts where it is still waited for, and not where it has done its part since the look began.
TEST(WaitCheck, ARankThatHasDoneItsPartMayLeave) {
  run_threads(2, [](int rank) {
    if (rank == 1) return;
    const base::Deadline deadline(60s);
    const Waiting misses(std::vector<std::vector<int>>{{1}});
    std::optional<Failure> failure;
    while (!(failure = look(misses, deadline))) {
    }
    EXPECT_EQ(failure->message, "rank 1 has left the group (finalize) and will not come");
    EXPECT_EQ(failure->culprit, 1);
    EXPECT_FALSE(look(Waiting({{1}, {}}), deadline));
    EXPECT_FALSE(look(Waiting({{0, 1}, {1}, {}}), deadline));
    failure = look(Waiting({{0, 1}, {1}}), deadline);
    EXPECT_TRUE(failure && failure->culprit == 1);
  });
}

}  // namespace
}  // namespace unisono::testing

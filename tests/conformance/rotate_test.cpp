#include "inputs.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

int previous() { return (rank() + world_size() - 1) % world_size(); }

WORLD_TEST(Rotate, EveryRankGetsTheBufferOfTheRankBeforeAtEveryLength) {
  for (const std::size_t count : interesting_counts(sizeof(float))) {
    const auto expected = values<float>(count, previous());
    auto in_place = values<float>(count, rank());
    rotate(in_place);
    ASSERT_EQ(difference(in_place, expected), "") << count;
    const auto in = values<float>(count, rank());
    std::vector<float> out(count);
    rotate(in, out);
    ASSERT_EQ(difference(out, expected), "") << count;
    ASSERT_EQ(difference(in, values<float>(count, rank())), "") << count;
  }
}

WORLD_TEST(Rotate, CallsThatReturnAtOnceKeepTheirOrder) {
  auto first = values<double>(1000, rank()), second = values<double>(7, rank());
  std::vector<double> third(7);
  std::vector<Work> works;
  works.push_back(rotate_async(first));
  works.push_back(rotate_async(second));
  works.push_back(rotate_async(second, third));
  wait_all(works);
  EXPECT_EQ(difference(first, values<double>(1000, previous())), "");
  EXPECT_EQ(difference(second, values<double>(7, previous())), "");
  EXPECT_EQ(difference(third, values<double>(7, (previous() + world_size() - 1) % world_size())), "");
}

WORLD_TEST(Rotate, ValuesAreReturned) { EXPECT_EQ(rotate(rank()), previous()); }

WORLD_TEST(Rotate, ACallOfAnotherOperationIsAMismatch) {
  if (world_size() < 2) return;
  std::vector<int> x(3);
  const auto call = [&] { rank() == 0 ? broadcast(x) : rotate(x); };
  EXPECT_THROW(call(), Mismatch);
  EXPECT_EQ(rotate(rank()), previous());
}

}  // namespace

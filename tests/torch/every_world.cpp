#include "every_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <string>

#include "unisono/unisono.h"

namespace torch_tests {
namespace {

bool launched() { return std::getenv("WORLD_SIZE") != nullptr; }

void with_check(const std::function<void()>& body) {
  body();
  EXPECT_EQ(unisono::all_reduce(1 + unisono::rank()), unisono::world_size() * (unisono::world_size() + 1) / 2) << "the world is not sound any more";
}

}  // namespace

void on_every_world(int at_least, const std::function<void()>& body) {
  if (launched()) {
    if (unisono::world_size() < at_least) GTEST_SKIP() << "needs " << at_least << " ranks";
    return with_check(body);
  }
  for (int ranks = at_least; ranks <= 4; ++ranks) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    unisono::run_threads(ranks, [&] { with_check(body); });
  }
}

}  // namespace torch_tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  torch::set_num_threads(1);
  if (!torch_tests::launched()) return RUN_ALL_TESTS();
  const unisono::Context context;
  return RUN_ALL_TESTS();
}

// Trainings over `unisono run --hosts`: the digits in plain C++, and with LibTorch where that is built.

#include <gtest/gtest.h>

#include "ssh_hosts.h"

namespace unisono::testing {
namespace {

/// `once`: a text that the program writes once.
void expect_trained(const std::string& program, const std::string& once) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job = all.start(0, all.run_words("host0:1,host1:2", {program}));
  EXPECT_EQ(job->wait(std::chrono::minutes(5)), 0) << job->err();
  EXPECT_EQ(count(job->out(), once), 1) << job->out();
  const std::string accuracy = word_after(job->out(), "test accuracy: ");
  ASSERT_FALSE(accuracy.empty()) << job->out();
  EXPECT_GE(std::stod(accuracy), 0.95);
}

TEST(TrainingBySsh, TrainingBySshLearnsTheDigits) {
#ifdef DIGITS
  expect_trained(DIGITS, "confirmed by 3 of 3 ranks");
#else
  GTEST_SKIP() << "skipped: the examples are not built";
#endif
}

TEST(TrainingBySsh, TrainingBySshLearnsTheDigitsWithLibtorch) {
#ifdef DIGITS_TORCH
  expect_trained(DIGITS_TORCH, "epoch 20/20");
#else
  GTEST_SKIP() << "skipped: the component torch, or its example, is not built";
#endif
}

}  // namespace
}  // namespace unisono::testing

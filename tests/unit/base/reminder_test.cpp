// A rank that waits says for whom, first after a while and then again and again, and never after the wait is over.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include "base/thread.h"
#include "launch/job_options.h"

namespace unisono::base {
namespace {

using namespace std::chrono_literals;

TEST(Reminder, TheReminderSaysWhatIsWaitedForAgainAndAgain) {
  std::promise<void> third;
  std::vector<std::string> said;
  int asked = 0;
  {
    Reminder reminder(
        {1ms, 1ms}, [&] { return "host " + std::to_string(asked++); },
        [&](const std::string& text) {
          said.push_back(text);
          if (said.size() == 3) third.set_value();
        });
    ASSERT_EQ(third.get_future().wait_for(60s), std::future_status::ready);
  }
  ASSERT_GE(said.size(), 3U);
  for (std::size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i], "host " + std::to_string(i)) << "the text is asked anew each time";
}

TEST(Reminder, TheReminderSaysNothingBeforeItsTimeNorAfterItsEnd) {
  std::atomic<int> said = 0;
  for (int i = 0; i < 100; ++i)
    Reminder(
        {1h, 1h}, [] { return std::string("nobody"); }, [&](const std::string&) { ++said; });
  EXPECT_EQ(said, 0);
  for (int i = 0; i < 100; ++i) {
    {
      Reminder reminder(
          {0ms, 0ms}, [] { return std::string("nobody"); }, [&](const std::string&) { ++said; });
    }
    const int at_the_end = said;
    std::this_thread::yield();
    EXPECT_EQ(said, at_the_end);
  }
}

TEST(Reminder, TheSecondWordComesAfterTheSecondPause) {
  std::promise<void> first;
  std::atomic<int> said = 0;
  Reminder reminder(
      {0ms, 1h}, [] { return std::string("nobody"); },
      [&](const std::string&) {
        if (++said == 1) first.set_value();
      });
  ASSERT_EQ(first.get_future().wait_for(60s), std::future_status::ready);
  EXPECT_EQ(said, 1);
}

TEST(Reminder, AnEmptyTextIsNotSaidAndOneThatCannotBeHadEndsIt) {
  std::promise<void> enough;
  std::atomic<int> asked = 0, said = 0;
  {
    Reminder reminder(
        {0ms, 1ms},
        [&]() -> std::string {
          if (++asked == 3) {
            enough.set_value();
            throw std::runtime_error("the store has gone");
          }
          return {};
        },
        [&](const std::string&) { ++said; });
    ASSERT_EQ(enough.get_future().wait_for(60s), std::future_status::ready);
  }
  EXPECT_EQ(said, 0);
  EXPECT_EQ(asked, 3);
}

TEST(Reminder, LaunchersSpeakAfterThreeSecondsAndEveryThirty) {
  EXPECT_EQ(launcher::JobOptions{}.hosts.waiting.first, 3s);
  EXPECT_EQ(launcher::JobOptions{}.hosts.waiting.again, 30s);
}

}  // namespace
}  // namespace unisono::base

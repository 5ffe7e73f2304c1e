// A failure as a notice to ranks of other hosts, what is no such notice, and the ends that a launcher has recorded.
#include "coordination/failure_state.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordination/endings.h"
#include "coordination/notices.h"

namespace unisono::coordination {
namespace {

TEST(FailureText, TheTextComesBack) {
  const Failure failure{.kind = Failure::Kind::timeout, .cause = PeerFailed::silent, .culprit = 2, .missing = {1, 2, 4}, .message = "too late"};
  const auto again = decode_failure(encode_failure(failure), 5);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, failure.kind);
  EXPECT_EQ(again->cause, failure.cause);
  EXPECT_EQ(again->culprit, 2);
  EXPECT_EQ(again->missing, failure.missing);
  EXPECT_EQ(again->message, "too late");
}

TEST(FailureText, TheTextNamesOnlyRanksOfTheGroup) {
  const Failure failure{.kind = Failure::Kind::timeout, .culprit = 5, .missing = {-7, 1, 5, 1 << 30}, .message = "too late"};
  const auto again = decode_failure(encode_failure(failure), 5);
  ASSERT_TRUE(again) << "the group is over all the same";
  EXPECT_EQ(again->culprit, -1);
  EXPECT_EQ(again->missing, std::vector<int>{1});
}

TEST(FailureText, AnUnknownCauseIsRead) {
  std::string notice = encode_failure({.culprit = 1, .message = "gone"});
  notice[2] = '\x7f';
  EXPECT_EQ(decode_failure(notice, 2)->cause, PeerFailed::disconnected);
}

TEST(FailureText, TheTextIsNothingWhereItIsCutOrGoesOn) {
  const std::string notice = encode_failure({.culprit = 1, .missing = {0, 1}, .message = "gone"});
  for (std::size_t size = 0; size < notice.size(); ++size) EXPECT_FALSE(decode_failure(std::string_view(notice).substr(0, size), 2)) << size;
  EXPECT_FALSE(decode_failure(notice + "x", 2));
}

TEST(FailureText, TheTextOfManyRanksFitsANotice) {
  Failure failure{.kind = Failure::Kind::timeout, .message = std::string(5000, 'x')};
  for (int rank = 0; rank < 100'000; ++rank) failure.missing.push_back(rank);
  const std::string notice = encode_failure(failure);
  EXPECT_LE(notice.size(), std::size_t{64} << 10);
  EXPECT_TRUE(decode_failure(notice, 100'000));
}

TEST(RecordedEndings, RecordedEndingsSayHowAProcessHasEnded) {
  const auto store = std::make_shared<MemoryStore>();
  store->set("unisono/exit/0", "exit 7");
  store->set("unisono/exit/1", "signal 9");
  store->set("unisono/exit/2", "lost 0");
  const coordination::RecordedEndings recorded(store, [](int rank) { return std::to_string(rank); });
  EXPECT_EQ(recorded.of(0, {})->cause, PeerFailed::Cause::exited);
  EXPECT_EQ(recorded.of(1, {})->cause, PeerFailed::Cause::killed);
  EXPECT_EQ(recorded.of(2, {})->cause, PeerFailed::Cause::disconnected);
  EXPECT_EQ(recorded.of(2, {})->text, "is lost with the launcher of its host");
  EXPECT_FALSE(recorded.of(3, {}));
}

}  // namespace
}  // namespace unisono::coordination

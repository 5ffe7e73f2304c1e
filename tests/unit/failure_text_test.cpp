// A failure as a notice to ranks of other hosts, and what is no such notice.
#include "coordination/failure_text.h"

#include <gtest/gtest.h>

#include <string>

#include "coordination/notices.h"

namespace unisono::coordination {
namespace {

TEST(FailureText, comes_back) {
  const Failure failure{.kind = Failure::Kind::timeout, .cause = PeerFailed::silent, .culprit = 2, .missing = {1, 2, 4}, .message = "too late"};
  const auto again = decode_failure(encode_failure(failure), 5);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, failure.kind);
  EXPECT_EQ(again->cause, failure.cause);
  EXPECT_EQ(again->culprit, 2);
  EXPECT_EQ(again->missing, failure.missing);
  EXPECT_EQ(again->message, "too late");
}

TEST(FailureText, names_only_ranks_of_the_group) {
  const Failure failure{.kind = Failure::Kind::timeout, .culprit = 5, .missing = {-7, 1, 5, 1 << 30}, .message = "too late"};
  const auto again = decode_failure(encode_failure(failure), 5);
  ASSERT_TRUE(again) << "the group is over all the same";
  EXPECT_EQ(again->culprit, -1);
  EXPECT_EQ(again->missing, std::vector<int>{1});
}

TEST(FailureText, of_an_unknown_cause) {
  std::string notice = encode_failure({.culprit = 1, .message = "gone"});
  notice[2] = '\x7f';
  EXPECT_EQ(decode_failure(notice, 2)->cause, PeerFailed::disconnected);
}

TEST(FailureText, is_nothing_where_it_is_cut_or_goes_on) {
  const std::string notice = encode_failure({.culprit = 1, .missing = {0, 1}, .message = "gone"});
  for (std::size_t size = 0; size < notice.size(); ++size) EXPECT_FALSE(decode_failure(std::string_view(notice).substr(0, size), 2)) << size;
  EXPECT_FALSE(decode_failure(notice + "x", 2));
}

TEST(FailureText, of_many_ranks_fits_a_notice) {
  Failure failure{.kind = Failure::Kind::timeout, .message = std::string(5000, 'x')};
  for (int rank = 0; rank < 100'000; ++rank) failure.missing.push_back(rank);
  const std::string notice = encode_failure(failure);
  EXPECT_LE(notice.size(), std::size_t{64} << 10);
  EXPECT_TRUE(decode_failure(notice, 100'000));
}

}  // namespace
}  // namespace unisono::coordination

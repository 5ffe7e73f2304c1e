// How the launchers of several hosts tell each other that their ranks have ended.
#include "launch/hosts/host_texts.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/hosts/admission.h"
#include "launch/hosts/nodes.h"

#include "unisono/error.h"

namespace unisono::launcher {
namespace {

TEST(LaunchersText, TheEndsThatLaunchersTellAreReadBackUnchanged) {
  const std::vector<RankEnd> ends = {{.rank = 0,
                                      .pid = 12,
                                      .host = "a",
                                      .how = RankEnd::How::signaled,
                                      .code = 9,
                                      .out_of_memory = true,
                                      .order = 1,
                                      .waited = 250,
                                      .status = "poisoned 1"},
                                     {.rank = 1, .pid = 13, .host = "", .how = RankEnd::How::exited, .code = 255, .ended_by_launcher = true}};
  const std::string text = encode_ends(ends);
  const std::vector<RankEnd> again = decode_ends(text);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].status, "poisoned 1");
  EXPECT_EQ(again[0].exit_code(), 137);
  EXPECT_EQ(again[1].exit_code(), 255);
  EXPECT_EQ(again[0].waited, 250);
  EXPECT_EQ(again[1].waited, -1);
  EXPECT_EQ(encode_ends(again), text);
}

TEST(LaunchersText, CodesThatNoProcessEndsWithAreRefused) {
  for (const char* const code : {"2147483647", "256", "-1"}) {
    EXPECT_THROW(decode_ends("0 12 2 " + std::string(code) + " 0 0 0 0 0 0 0 0 0 a \n"), ProtocolError) << code;
  }
  EXPECT_NO_THROW(decode_ends("0 12 2 9 0 0 0 0 0 0 0 0 1000 a \n"));
  EXPECT_THROW(decode_ends("0 12 2 9 0 0 0 0 0 0 0 0 1001 a \n"), ProtocolError);
  EXPECT_THROW(decode_ends("0 12 3 0 0 0 0 0 0 0 0 0 0 a \n"), ProtocolError);
  EXPECT_THROW(decode_ends("0 12\n"), ProtocolError);
}

TEST(LaunchersText, WhatIsSaidOfHostsThatComeAndGoComesBack) {
  const HostTally tally{.members = 3, .well = 1, .last_lost = 7, .names = {"4", "5.1"}};
  EXPECT_EQ(decode_tally(encode_tally(tally)), tally);
  EXPECT_EQ(decode_tally(encode_tally({})), HostTally{});
  const std::string hosts = encode_roster(
      {{.number = 0, .ranks = 2, .where = "a:1"}, {.number = 3, .ranks = 2, .first_rank = 4, .is_late = true, .is_gone = true, .where = "b:2"}});
  EXPECT_EQ(encode_roster(decode_roster(hosts)), hosts);
  EXPECT_TRUE(decode_roster(hosts)[1].is_gone);
  EXPECT_EQ(encode_offer(decode_offer("4 2 a:1")), "4 2 a:1");
  EXPECT_EQ(encode_welcome(decode_welcome("4 6 2 1 29501 1 0123")), "4 6 2 1 29501 1 0123");
}

TEST(LaunchersText, WhatNoLauncherSaysIsRefused) {
  for (const char* text : {"", "1 2", "-1 0 -1", "1 -1 -1", "1 1 -2", "65537 0 -1"}) EXPECT_THROW(decode_tally(text), ProtocolError) << text;
  for (const char* text : {"0 2 0 0\n", "-1 2 0 0 0 a\n", "0 65537 0 0 0 a\n", "0 2 -1 0 0 a\n"})
    EXPECT_THROW(decode_roster(text), ProtocolError) << text;
  for (const char* text : {"", "0 0 a", "2 3 a", "2 -1 a", "65537 1 a", "2 1"}) EXPECT_THROW(decode_offer(text), ProtocolError) << text;
  for (const char* text : {"", "4 4 2 1 1 0 x", "-1 4 2 1 1 0 x", "0 4 0 1 1 0 x", "0 4 2 -1 1 0 x", "0 4 2 1 65536 0 x", "0 4 2 1 1 0"}) {
    EXPECT_THROW(decode_welcome(text), ProtocolError) << text;
  }
}

// The first of those that count as the cause is one that the others have not survived.
TEST(LaunchersText, TheCauseOfAnElasticJobIsWhatWasNotSurvived) {
  std::vector<RankEnd> ends = {{.rank = 0, .how = RankEnd::How::exited, .is_well = true},
                               {.rank = 1, .how = RankEnd::How::signaled, .code = 9, .is_survived = true, .order = 0},
                               {.rank = 2, .how = RankEnd::How::exited, .code = 7, .order = 1}};
  EXPECT_EQ(first_cause_of_elastic(ends, 1, false), std::nullopt);
  EXPECT_EQ(first_cause_of_elastic(ends, 2, false), 2U);
  EXPECT_EQ(first_cause_of_elastic(ends, 1, true), 2U);
  ends[2].is_survived = true;
  EXPECT_EQ(first_cause_of_elastic(ends, 1, true), 1U);
}

// Ranks 0 and 3 went on without rank 1 until their launchers ended them, because a host was lost: that is the cause, and no rank.
TEST(LaunchersText, TheCauseOfAnElasticJobThatLosesAHostIsNoLossOfBefore) {
  const std::vector<RankEnd> ends = {{.rank = 0, .how = RankEnd::How::signaled, .code = 15, .ended_by_launcher = true, .order = 1},
                                     {.rank = 1, .how = RankEnd::How::exited, .code = 7, .is_survived = true, .order = 0},
                                     {.rank = 3, .how = RankEnd::How::signaled, .code = 15, .ended_by_launcher = true, .order = 2}};
  const Trouble lost{.kind = Trouble::Kind::lost, .node = 2, .rank = 4, .how = "the connection to it ended"};
  EXPECT_EQ(first_cause_of_hosts(ends, 4, lost), std::nullopt);
  EXPECT_EQ(first_cause_of_hosts(ends, 4, Trouble{.kind = Trouble::Kind::too_few, .rank = 1}), 1U);
  EXPECT_EQ(first_cause_of_hosts(ends, 0, std::nullopt), std::nullopt);
}

// A launcher looks for the cause among its own ranks before it tells the others how these ended.
TEST(LaunchersText, ALossThatWasSurvivedStaysSoWhoeverLooksForTheCause) {
  const std::vector<RankEnd> own = {{.rank = 0, .how = RankEnd::How::signaled, .code = 15, .ended_by_launcher = true, .order = 1},
                                    {.rank = 1, .how = RankEnd::How::exited, .code = 7, .is_survived = true, .order = 0}};
  EXPECT_EQ(first_cause_of_elastic(own, 3, true), 1U);
  std::vector<RankEnd> all = decode_ends(encode_ends(own));
  all.push_back({.rank = 2, .how = RankEnd::How::exited, .code = 9, .order = 3});
  EXPECT_EQ(first_cause_of_hosts(all, 3, Trouble{.kind = Trouble::Kind::too_few, .rank = 2}), 2U);
}

}  // namespace
}  // namespace unisono::launcher

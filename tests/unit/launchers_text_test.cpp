// How the launchers of several hosts tell each other that their ranks have ended.
#include "launch/nodes_text.h"

#include <gtest/gtest.h>

#include <string>

#include "unisono/error.h"

namespace unisono::launcher {
namespace {

TEST(LaunchersText, ends_come_back) {
  const std::vector<RankEnd> ends = {
      {.rank = 0, .pid = 12, .host = "a", .how = RankEnd::How::signaled, .code = 9, .out_of_memory = true, .order = 1, .status = "poisoned 1"},
      {.rank = 1, .pid = 13, .host = "", .how = RankEnd::How::exited, .code = 255, .ended_by_launcher = true}};
  const std::string text = encode_ends(ends);
  const std::vector<RankEnd> again = decode_ends(text);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].status, "poisoned 1");
  EXPECT_EQ(again[0].exit_code(), 137);
  EXPECT_EQ(again[1].exit_code(), 255);
  EXPECT_EQ(encode_ends(again), text);
}

TEST(LaunchersText, codes_that_no_process_ends_with_are_refused) {
  for (const char* const code : {"2147483647", "256", "-1"}) {
    EXPECT_THROW(decode_ends("0 12 2 " + std::string(code) + " 0 0 0 0 0 0 0 0 a \n"), ProtocolError) << code;
  }
  EXPECT_THROW(decode_ends("0 12 3 0 0 0 0 0 0 0 0 0 a \n"), ProtocolError);
  EXPECT_THROW(decode_ends("0 12\n"), ProtocolError);
}

}  // namespace
}  // namespace unisono::launcher

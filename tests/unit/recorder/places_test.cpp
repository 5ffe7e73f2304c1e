// Where a call stands in its program, and which rank of the job another process is.
#include <gtest/gtest.h>

#include <source_location>
#include <string>
#include <vector>

#include "recorder/reader.h"
#include "recorder/recorder.h"
#include "unisono/detail/place.h"
#include "unisono/error.h"

namespace unisono::recorder {
namespace {

// Bindings name places in the sources of their languages.
TEST(Recorder, TheRecorderKnowsThePlacesOfAProgramInAnyLanguage) {
  const std::source_location where = detail::place_in("/home/me/train.py", 57);
  EXPECT_EQ(where.line(), 57U);
  EXPECT_STREQ(where.file_name(), "/home/me/train.py");
  EXPECT_EQ(detail::place_in("/home/me/train.py", 57).file_name(), where.file_name()) << "by whose address it is known";
  EXPECT_EQ(detail::place_in("/home/me/train.py", 0).line(), 0U);
  const auto recorder = Recorder::make_private();
  for (const std::source_location& place : {where, detail::place_in("/home/me/train.py", 58), detail::place_in("/usr/include/unisono/objects.h", 3)})
    Recording(*recorder, {.operation = Operation::barrier, .sequence = 1, .where = place});
  const RankSeen seen = RecordReader(recorder->memory()).read();
  ASSERT_EQ(seen.recent.size(), 3U);
  EXPECT_EQ(seen.recent[0].place, "train.py:57");
  EXPECT_EQ(seen.recent[1].place, "train.py:58");
  EXPECT_EQ(seen.recent[2].place, "") << "a line of the library says nothing of the program";
  const InvalidArgument error("no", {.operation = "barrier", .where = where});
  EXPECT_STREQ(error.what(), "barrier, at train.py:57: no");
}

TEST(Recorder, TheRecorderTellsTheRanksOfTheJobByTheProcesses) {
  const auto recorder = Recorder::make_private();
  const std::vector<std::uint64_t> members{11, 12, 21}, part{21, 11, 31};
  EXPECT_TRUE(recorder->ranks_of(part).empty()) << "the members are not known yet";
  recorder->set_identity({.rank = 0, .size = 3, .local_rank = 0, .node = 0, .host = "a", .job = "j", .members = members});
  EXPECT_EQ(recorder->ranks_of(part), (std::vector<int>{2, 0, -1}));
}

}  // namespace
}  // namespace unisono::recorder

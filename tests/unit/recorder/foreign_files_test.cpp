// Records, logs and traces that somebody else may have written, or put links in the place of.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/files.h"
#include "base/printable.h"
#include "launch/output/rank_stream.h"
#include "launch/view/job_view.h"
#include "recorder/dump.h"
#include "recorder/reader.h"
#include "recorder/recorder.h"
#include "recorder/trace_file.h"
#include "recorder/trace_reader.h"
#include "unit/temporary_file.h"

namespace unisono {
namespace {

namespace fs = std::filesystem;

const std::string moves_the_cursor = "\x1b[2J\x1b]0;title\x07";

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Printable, PrintableTextKeepsLettersOfAllLanguagesAndNoControlCharacter) {
  EXPECT_EQ(base::printable("rank 1: größer → 音"), "rank 1: größer → 音");
  EXPECT_EQ(base::printable("a\nb\tc"), "a b c");
  EXPECT_EQ(base::printable(moves_the_cursor), "?[2J?]0;title?");
  EXPECT_EQ(base::printable("\xc2\x9b"
                            "31m, \x9b"
                            "31m, \x7f"),
            "??31m, ?31m, ?")
      << "the one character that begins a sequence as well, in UTF-8 and not";
  EXPECT_EQ(base::printable("gr\xc3"), "gr?") << "a character that was cut";
}

TEST(ForeignRecord, NoTextOfItMovesTheCursor) {
  const auto recorder = recorder::Recorder::make_private();
  recorder->set_identity({.rank = 0, .size = 1, .local_rank = 0, .node = 0, .host = moves_the_cursor, .job = moves_the_cursor});
  recorder->header().program.set(moves_the_cursor);
  recorder->set_failure(moves_the_cursor);
  const std::uint16_t group = recorder->add_group(moves_the_cursor, 2);
  { recorder::Recording recording(*recorder, {.operation = Operation::barrier, .label = moves_the_cursor, .group = group, .sequence = 1}); }
  recorder->header().texts.places[1].set(moves_the_cursor);
  recorder->header().groups[group].set(group, 2, moves_the_cursor);
  recorder::entries_of(&recorder->header())->place.store(1);
  const recorder::RankSeen seen = recorder::RecordReader(recorder->memory()).read();
  ASSERT_EQ(seen.recent.size(), 1U);
  ASSERT_EQ(seen.counts.size(), 1U);
  for (const std::string& text : {seen.host, seen.job, seen.program, seen.failure, seen.recent[0].operation, seen.recent[0].group,
                                  seen.recent[0].place, seen.counts[0].group, seen.counts[0].operation})
    EXPECT_EQ(text, "?[2J?]0;title?");
}

TEST(ForeignRecord, WhatALauncherTellsMovesTheCursorNeither) {
  launcher::JobSeen job{.job = moves_the_cursor, .host = moves_the_cursor, .world_size = 1, .ranks = {}};
  launcher::RankFacts rank;
  rank.record.rank = 0;
  rank.record.now = 1000;
  rank.record.program = rank.record.failure = moves_the_cursor;
  rank.record.recent.push_back({.operation = moves_the_cursor, .group = moves_the_cursor, .place = moves_the_cursor});
  job.ranks.push_back(rank);
  const auto told = launcher::decode_job(launcher::encode(job));
  ASSERT_TRUE(told);
  const recorder::RankSeen& record = told->ranks.at(0).record;
  for (const std::string& text :
       {told->job, told->host, record.program, record.failure, record.recent.at(0).operation, record.recent.at(0).group, record.recent.at(0).place})
    EXPECT_EQ(text, "?[2J?]0;title?");
}

/// A folder in which a file of the user's lies, and a link to it.
class SharedFolder : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(victim) << "precious"; }
  /// Puts a link to the user's file where the library is to write.
  void put_link(const std::string& name) { fs::create_symlink(victim, folder.file(name)); }
  void expect_untouched() { EXPECT_EQ(content_of(victim), "precious"); }

  TemporaryFolder folder;
  const std::string victim = folder.file("victim");
};

TEST_F(SharedFolder, WhatHasTheNameOfAFileIsReplacedAndNotWrittenTo) {
  put_link("link");
  fs::create_hard_link(victim, folder.file("second_name"));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  std::ofstream(folder.file("own")) << "an earlier text";
  for (const char* const name : {"link", "second_name", "pipe", "own", "new"}) {
    const base::FileDescriptor file(base::open_to_write(folder.file(name).c_str(), 0600));
    ASSERT_TRUE(file) << name;
    EXPECT_TRUE(base::write_all(file.get(), "text", 4));
    EXPECT_EQ(content_of(folder.file(name)), "text") << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder.file(name)))) << name;
  }
  fs::create_directory(folder.file("folder"));
  EXPECT_EQ(base::open_to_write(folder.file("folder").c_str(), 0600), -1);
  expect_untouched();
}

TEST_F(SharedFolder, ARecordIsNotWrittenThroughALink) {
  put_link("job.0.1.record.new");
  recorder::DumpFile file;
  file.prepare(folder.path(), "job.0.1.record");
  EXPECT_TRUE(file.write("record", 6));
  EXPECT_EQ(content_of(folder.file("job.0.1.record")), "record");
  expect_untouched();
}

TEST_F(SharedFolder, ALogIsNotWrittenThroughALink) {
  put_link("rank-3.log");
  launcher::RankLog(folder.path(), 3, 0).append("a line");
  EXPECT_EQ(content_of(folder.file("rank-3.log")), "a line");
  expect_untouched();
}

TEST_F(SharedFolder, RecordsAndTracesAreReadFromFilesAlone) {
  const auto recorder = recorder::Recorder::make_private();
  std::ofstream(folder.file("a.record"), std::ios::binary)
      .write(static_cast<const char*>(recorder->memory().get()),
             static_cast<std::streamsize>(recorder::record_bytes(recorder::Recorder::own_calls, recorder::Recorder::calls_of_others)));
  EXPECT_NE(recorder::RecordReader::open_copy(folder.file("a.record")), nullptr);
  EXPECT_NE(recorder::TraceReader::open(folder.file("a.record")), nullptr);
  fs::create_symlink(folder.file("a.record"), folder.file("link.record"));
  ASSERT_EQ(::mkfifo(folder.file("pipe.record").c_str(), 0600), 0);
  for (const char* const name : {"link.record", "pipe.record"}) {
    EXPECT_EQ(recorder::RecordReader::open_copy(folder.file(name)), nullptr) << name;
    EXPECT_EQ(recorder::TraceReader::open(folder.file(name)), nullptr) << name;
  }
}

}  // namespace
}  // namespace unisono

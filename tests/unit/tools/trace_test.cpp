// Traces: how they keep all calls, and how `unisono trace` puts those of several ranks together.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "made_trace.h"
#include "recorder/trace_reader.h"
#include "trace/totals.h"
#include "trace_reading.h"
#include "unisono/error.h"

using namespace unisono;
using namespace unisono::testing;
using namespace unisono::tools;

TEST(Trace, ATraceKeepsMoreCallsThanARing) {
  const TemporaryFolder folder;
  base::Opened file = recorder::make_trace_file(folder.path(), "a", 10000);
  ASSERT_TRUE(file.fd);
  const auto recorder = recorder::Recorder::make_trace(std::move(file.fd));
  ASSERT_NE(recorder, nullptr);
  const auto make = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) {
      recorder::Recording recording(*recorder, {.operation = Operation::barrier, .sequence = i});
      recording.succeed();
    }
  };
  std::thread([&] { make(1, 5000); }).join();
  make(1, 2 * recorder::trace_chunk + 7);
  const auto reader = recorder::TraceReader::open(folder.file("a.trace"));
  ASSERT_NE(reader, nullptr);
  std::uint64_t own = 0, others = 0, timed = 0;
  reader->each([&](const recorder::TracedCall& call) {
    EXPECT_EQ(call.sequence, ++(call.of_owner ? own : others));
    EXPECT_GE(call.done, call.begun);
    timed += call.done > call.begun ? 1 : 0;
  });
  EXPECT_GT(timed, own) << "the beginning of small calls is timed as well";
  EXPECT_EQ(own, 2 * recorder::trace_chunk + 7);
  EXPECT_EQ(others, 5000U);
  EXPECT_EQ(reader->lost(), 0U);
  make(1, 10'000);
  EXPECT_EQ(reader->lost(), 2 * recorder::trace_chunk + 7 + 10'000 - 3 * recorder::trace_chunk);
  std::uint64_t kept = 0;
  reader->each([&](const recorder::TracedCall& call) { kept += call.of_owner ? 1 : 0; });
  EXPECT_EQ(kept, 3 * recorder::trace_chunk) << "10000 calls, in whole chunks";
  EXPECT_EQ(recorder::RecordReader(recorder->memory()).read(3).recent.back().sequence, 10'000U) << "unisono status reads it as any record";
}

// Under another launcher each rank makes its own file.
TEST(Trace, ARankMakesItsOwn) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    base::Environment::become(base::Environment(std::map<std::string, std::string, std::less<>>{{recorder::trace_variable, folder.path() + "/new"}}));
    const auto recorder = recorder::of_process();
    recorder->set_identity({.rank = 4, .size = 8, .local_rank = 0, .node = 1, .host = "here", .job = "a/job"});
    recorder::Recording recording(*recorder, {.operation = Operation::barrier, .sequence = 1});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const JobTrace trace = open_traces(folder.path() + "/new", "a/job");
  ASSERT_EQ(trace.ranks.size(), 1U);
  EXPECT_EQ(trace.ranks[0].about.rank, 4);
  EXPECT_EQ(trace.ranks[0].about.calls, 1U);
}

// A full disk costs the earliest calls, and nothing else. Here the file is taken away, so that no more space can be had.
TEST(Trace, ATraceGoesOnWhereTheDiskIsFull) {
  const TemporaryFolder folder;
  base::Opened file = recorder::make_trace_file(folder.path(), "a");
  ASSERT_TRUE(file.fd);
  const int fd = file.fd.get();
  const auto recorder = recorder::Recorder::make_trace(std::move(file.fd));
  ASSERT_NE(recorder, nullptr);
  const base::FileDescriptor no_file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::dup3(no_file.get(), fd, O_CLOEXEC), fd);
  const auto make = [&] {
    for (std::uint64_t i = 1; i <= recorder::trace_chunk + 3; ++i) {
      recorder::Recording recording(*recorder, {.operation = Operation::barrier, .sequence = i});
      recording.succeed();
    }
  };
  make();
  std::thread(make).join();
  const auto reader = recorder::TraceReader::open(folder.file("a.trace"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->lost(), 2 * 3U);
  std::uint64_t expected = 4, calls = 0;
  reader->each([&](const recorder::TracedCall& call) {
    EXPECT_EQ(call.sequence, expected++);
    if (++calls == recorder::trace_chunk) expected = 4;
  });
  EXPECT_EQ(calls, 2 * recorder::trace_chunk);
}

TEST(TraceMerge, TheMergeFindsWhomACallWaitedFor) {
  const TemporaryFolder folder;
  make_late_rank(folder.path());
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const auto first = slices_of(merge, 0), second = slices_of(merge, 1);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].begin, 1 * ms);
  EXPECT_EQ(first[0].end, 3 * ms);
  EXPECT_EQ(first[0].waited, 1 * ms);
  EXPECT_EQ(first[1].waited, 5 * ms);
  EXPECT_EQ(first[1].waited_for, 1);
  EXPECT_TRUE(first[1].late_one_blocks);
  EXPECT_EQ(second[1].waited, 0U);
  EXPECT_EQ(second[1].waited_for, -1);
  const Totals totals = totals_of(trace, merge);
  EXPECT_EQ(totals.ranks[0].span, 11 * ms);
  EXPECT_EQ(totals.ranks[0].computing(), 2 * ms);
  EXPECT_EQ(totals.ranks[0].waiting, 6 * ms);
  EXPECT_EQ(totals.ranks[0].moving(), 3 * ms);
  EXPECT_EQ(totals.ranks[1].caused, 6 * ms);
  EXPECT_EQ(totals.ranks[1].last, 2U);
  EXPECT_EQ(totals.steps, 2U);
  EXPECT_EQ(totals.slowest(), std::vector<std::size_t>{1});
  EXPECT_EQ(totals.operations.at("all_reduce").bytes, 600U);
  EXPECT_NE(trace_text(trace, totals).find("rank 1 is the slowest: the others waited 6.0 ms"), std::string::npos) << trace_text(trace, totals);
}

// A group's number of a call counts messages as well, so that of a collective differs between ranks.
TEST(TraceMerge, TheMergeMatchesCallsBehindMessages) {
  const TemporaryFolder folder;
  make_trace(folder.path(), {.rank = 0,
                             .calls = {{.operation = Operation::send, .begun = began + 4 * ms, .done = began + 5 * ms, .sequence = 1, .peer = 1},
                                       {.operation = Operation::send, .begun = began + 6 * ms, .done = began + 7 * ms, .sequence = 2, .peer = 1},
                                       {.begun = began + 9 * ms, .done = began + 10 * ms, .sequence = 3}}});
  make_trace(folder.path(),
             {.rank = 1,
              .calls = {{.operation = Operation::recv, .begun = began + 1 * ms, .done = began + 7 * ms, .sequence = 1, .peer = 0, .label = "probe"},
                        {.operation = Operation::recv, .begun = began + 1 * ms, .done = began + 7 * ms, .sequence = 2, .peer = 0},
                        {.operation = Operation::recv, .begun = began + 7 * ms, .done = began + 8 * ms, .sequence = 3, .peer = 0},
                        {.begun = began + 8 * ms, .done = began + 10 * ms, .sequence = 4}}});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const auto slices = slices_of(merge, 1);
  ASSERT_EQ(slices.size(), 4U);
  EXPECT_EQ(slices[1].waited, 3 * ms);
  EXPECT_EQ(slices[1].waited_for, 0);
  EXPECT_EQ(slices[2].waited, 0U) << "it had been sent before";
  EXPECT_EQ(slices[3].waited, 1 * ms);
  EXPECT_EQ(slices[3].waited_for, 0);
}

TEST(TraceMerge, ARootIsWaitedForAlone) {
  const TemporaryFolder folder;
  const auto rank_with = [&](int rank, std::uint64_t broadcast, std::uint64_t reduce) {
    make_trace(folder.path(),
               {.rank = rank,
                .size = 3,
                .calls = {{.operation = Operation::broadcast, .begun = began + broadcast * ms, .done = began + 10 * ms, .sequence = 1, .peer = 0},
                          {.operation = Operation::reduce, .begun = began + reduce * ms, .done = began + 20 * ms, .sequence = 2, .peer = 0}}});
  };
  rank_with(0, 3, 11);
  rank_with(1, 1, 15);
  rank_with(2, 8, 12);
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  EXPECT_EQ(slices_of(merge, 1)[0].waited, 2 * ms) << "for the root, and not for rank 2";
  EXPECT_EQ(slices_of(merge, 1)[0].waited_for, 0);
  EXPECT_EQ(slices_of(merge, 2)[0].waited, 0U);
  EXPECT_EQ(slices_of(merge, 0)[1].waited, 4 * ms);
  EXPECT_EQ(slices_of(merge, 0)[1].waited_for, 1);
  EXPECT_EQ(slices_of(merge, 2)[1].waited, 0U) << "a rank that is not the root waits for nobody";
}

// Nothing is known of the time before the first call that is left; and their numbers are those of the library.
TEST(TraceMerge, LostCallsAreNoTimeOfComputing) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1}) {
    MadeRank made{.rank = rank};
    for (std::uint64_t sequence = rank == 0 ? 1 : 0; sequence <= recorder::trace_chunk + 10; ++sequence) {
      const std::uint64_t at = began + (100 + sequence) * ms;
      made.calls.push_back({.begun = at + (rank == 0 ? 0 : 10 * us), .done = at + 500 * us, .sequence = sequence});
    }
    make_trace(folder.path(), made, recorder::trace_chunk);
  }
  JobTrace trace = open_traces(folder.path(), "");
  EXPECT_EQ(trace.lost, 10U + 11U);
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  EXPECT_EQ(totals.ranks[0].span, (recorder::trace_chunk - 1) * ms + 500 * us);
  EXPECT_EQ(totals.ranks[1].last, recorder::trace_chunk) << "each of them meets its own";
  EXPECT_NE(trace_text(trace, totals).find("the first 21 calls are lost"), std::string::npos);
}

TEST(TraceMerge, AScanSaysItselfWhomItWaitedFor) {
  const TemporaryFolder folder;
  const auto rank_with = [&](int rank, std::uint64_t begun, std::uint64_t done, int waited_for) {
    make_trace(
        folder.path(),
        {.rank = rank,
         .size = 3,
         .calls = {{.operation = Operation::scan, .begun = began + begun * ms, .done = began + done * ms, .sequence = 1, .waited_for = waited_for}}});
  };
  rank_with(0, 1, 2, -1);
  rank_with(1, 1, 3, 0);
  rank_with(2, 9, 10, -1);
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  EXPECT_EQ(slices_of(merge, 0)[0].waited, 0U) << "not for the later ones";
  EXPECT_EQ(slices_of(merge, 1)[0].waited, 2 * ms);
  EXPECT_EQ(slices_of(merge, 1)[0].waited_for, 0);
}

TEST(TraceMerge, ACallThatNeverEndedWaitsToTheEnd) {
  const TemporaryFolder folder;
  make_trace(folder.path(), {.rank = 0, .now = began + 50 * ms, .calls = {{.begun = began + 10 * ms, .sequence = 1, .waited_for = 1}}});
  make_trace(folder.path(), {.rank = 1, .now = began + 60 * ms});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const auto slices = slices_of(merge, 0);
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_FALSE(slices[0].is_over);
  EXPECT_EQ(slices[0].end, 50 * ms);
  EXPECT_EQ(slices[0].waited, 40 * ms);
  EXPECT_EQ(slices[0].waited_for, 1);
}

// The program waits for what its asynchronous call waits for.
TEST(TraceMerge, AsynchronousCallsAreNotTimeOfTheProgram) {
  const TemporaryFolder folder;
  make_trace(
      folder.path(),
      {.rank = 0,
       .calls = {{.begun = began + 1 * ms, .done = began + 9 * ms, .sequence = 1, .queued = began + 1 * ms},
                 {.operation = Operation::barrier, .begun = began + 5 * ms, .done = began + 9 * ms, .label = recorder::wait_label, .group = ""}}});
  make_trace(folder.path(), {.rank = 1, .calls = {{.begun = began + 7 * ms, .done = began + 9 * ms, .sequence = 1}}});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const auto slices = slices_of(merge, 0);
  EXPECT_EQ(slices[0].row, Slice::Row::beside);
  EXPECT_EQ(slices[0].waited, 6 * ms);
  EXPECT_EQ(slices[1].row, Slice::Row::program_wait);
  EXPECT_EQ(slices[1].waited, 2 * ms);
  const Totals totals = totals_of(trace, merge);
  EXPECT_EQ(totals.ranks[0].computing(), 5 * ms);
  EXPECT_EQ(totals.ranks[0].waiting, 2 * ms);
  EXPECT_EQ(totals.calls, 2U);
}

// The second host's clocks say nothing of the first one's: neither the steady one nor that of the day.
TEST(TraceMerge, TheMergeAlignsTheClocksOfHosts) {
  const TemporaryFolder folder;
  constexpr std::uint64_t other = 700 * began;
  std::vector<MadeCall> here, there;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t at = i * 100 * ms;
    const std::uint64_t drift = i * 2 * us;  // of the second host
    const std::uint64_t late_here = i % 2 == 0 ? 3 * ms : 0, late_there = i % 2 == 1 ? 4 * ms : 0;
    here.push_back({.begun = began + at + late_here, .done = began + at + 4 * ms + 30 * us, .sequence = i + 1});
    there.push_back({.begun = other + at + drift + late_there, .done = other + at + drift + 4 * ms + 20 * us, .sequence = i + 1});
    if (i % 2 == 0) here.back().done = there.back().done = 0;
    if (i % 2 == 0) {
      here.back().done = began + at + 3 * ms + 30 * us;
      there.back().done = other + at + drift + 3 * ms + 20 * us;
    }
  }
  make_trace(folder.path(), {.rank = 0, .host = "a", .calls = here});
  make_trace(folder.path(), {.rank = 1, .host = "b", .began = other, .real = 5'000'000'000 + 900 * ms, .calls = there});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  ASSERT_EQ(trace.clocks.size(), 2U);
  EXPECT_TRUE(trace.clocks[1].is_measured);
  EXPECT_LT(trace.clocks[1].uncertainty_ns, 200 * us);
  const auto first = slices_of(merge, 0), second = slices_of(merge, 1);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double apart = static_cast<double>(second[i].begin) - static_cast<double>(first[i].begin);
    EXPECT_NEAR(apart, i % 2 == 0 ? -3.0 * ms : 4.0 * ms, 150.0 * us) << i;
    EXPECT_EQ(i % 2 == 0 ? second[i].waited_for : first[i].waited_for, i % 2 == 0 ? 0 : 1) << i;
  }
  EXPECT_NE(clock_texts(trace).at(0).find("aligned by the calls themselves"), std::string::npos);
}

TEST(TraceMerge, TheMergeTakesTheLastAttemptOfOneJob) {
  const TemporaryFolder folder;
  EXPECT_THROW(open_traces(folder.path(), ""), InvalidArgument);
  EXPECT_THROW(open_traces(folder.path() + "/none", ""), InvalidArgument);
  make_trace(folder.path(), {.rank = 0, .size = 1, .real = 1'000});
  make_trace(folder.path(), {.rank = 0, .size = 1, .real = 2'000, .calls = {{.begun = began + ms, .done = began + 2 * ms, .sequence = 1}}});
  std::ofstream(folder.file("other.trace")) << "no trace";
  EXPECT_EQ(open_traces(folder.path(), "").ranks.at(0).about.real_at_began, 2'000U);
  make_trace(folder.path(), {.rank = 0, .size = 1, .job = "second"});
  EXPECT_THROW(open_traces(folder.path(), ""), InvalidArgument);
  EXPECT_EQ(open_traces(folder.path(), "second").name, "second");
  EXPECT_THROW(open_traces(folder.path(), "third"), InvalidArgument);
  std::filesystem::create_directory(folder.path() + "/named");
  int attempt = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().extension() == ".trace")
      std::filesystem::copy(file.path(), folder.path() + "/named/all.0." + std::to_string(attempt++) + ".trace");
  }
  EXPECT_EQ(open_traces(folder.path() + "/named", "").name, "all") << "the launcher's name of the job, where there is one";
}

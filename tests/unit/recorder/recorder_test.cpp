// The flight recorder: what is kept of calls, by whom it is read, and what is never written.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "recorder/reader.h"
#include "recorder/recorder.h"
#include "unit/temporary_file.h"
#include "unisono/launch.h"
#include "unisono/unisono.h"

using namespace unisono;
using recorder::CallFacts;
using recorder::CallState;
using recorder::RankSeen;
using recorder::Recorder;
using recorder::Recording;
using recorder::RecordReader;

namespace {

RankSeen seen_in(const Recorder& recorder, std::size_t most = SIZE_MAX) { return RecordReader(recorder.memory()).read(most); }

CallFacts call(std::uint64_t sequence, std::uint16_t group = 0, std::uint64_t bytes = 8) {
  return {.operation = Operation::all_reduce, .group = group, .sequence = sequence, .bytes = bytes, .dtype = DType::float32};
}

/// Returns the record of this process as any process of this user finds it.
std::vector<RankSeen> found_of(int pid) {
  std::vector<RankSeen> found;
  for (const auto& reader : recorder::find_records()) {
    if (RankSeen seen = reader->read(); seen.pid == pid) found.push_back(std::move(seen));
  }
  return found;
}

}  // namespace

TEST(Recorder, TheRecorderKeepsWhatACallWas) {
  const auto recorder = Recorder::make_private();
  const std::uint16_t group = recorder->add_group("{0, 2}", 2);
  {
    Recording recording(*recorder, {.operation = Operation::broadcast,
                                    .label = "broadcast_object",
                                    .group = group,
                                    .sequence = 7,
                                    .bytes = 1 << 20,
                                    .dtype = DType::uint8,
                                    .peer = 2,
                                    .where = std::source_location::current()});
    EXPECT_EQ(seen_in(*recorder).recent.at(0).state, CallState::running);
    recording.succeed();
  }
  const RankSeen seen = seen_in(*recorder);
  EXPECT_EQ(seen.pid, ::getpid());
  EXPECT_EQ(seen.calls, 1U);
  EXPECT_EQ(seen.bytes, 1U << 20);
  ASSERT_EQ(seen.recent.size(), 1U);
  const auto& last = seen.recent.front();
  EXPECT_EQ(last.operation, "broadcast_object");
  EXPECT_EQ(last.group, "{0, 2}");
  EXPECT_EQ(last.state, CallState::done);
  EXPECT_EQ(last.sequence, 7U);
  EXPECT_EQ(last.bytes, 1U << 20);
  EXPECT_EQ(last.dtype, DType::uint8);
  EXPECT_EQ(last.peer, 2);
  EXPECT_TRUE(last.place.starts_with("recorder_test.cpp:")) << last.place;
  EXPECT_GT(last.begun, seen.began);
  EXPECT_GE(last.done, last.begun);
}

TEST(Recorder, AnExceptionIsAFailure) {
  const auto recorder = Recorder::make_private();
  try {
    const Recording recording(*recorder, call(1));
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(seen_in(*recorder).recent.at(0).state, CallState::failed);
}

TEST(Recorder, TheRecorderKeepsTheLastCalls) {
  const auto recorder = Recorder::make_private();
  constexpr std::uint64_t calls = 3 * Recorder::own_calls + 5;
  for (std::uint64_t i = 1; i <= calls; ++i) {
    Recording recording(*recorder, call(i));
    recording.succeed();
  }
  const RankSeen seen = seen_in(*recorder);
  EXPECT_EQ(seen.calls, calls);
  ASSERT_EQ(seen.recent.size(), Recorder::own_calls);
  for (std::size_t i = 0; i < seen.recent.size(); ++i) EXPECT_EQ(seen.recent[i].sequence, calls - Recorder::own_calls + 1 + i);
  ASSERT_EQ(seen_in(*recorder, 3).recent.size(), 3U);
  EXPECT_EQ(seen_in(*recorder, 3).recent.front().sequence, calls - 2);
}

TEST(Recorder, OtherThreadsHaveARingOfTheirOwn) {
  const auto recorder = Recorder::make_private();
  const auto make = [&](std::uint64_t sequence) {
    Recording recording(*recorder, call(sequence, 0, 1 << 16));
    recording.succeed();
  };
  make(1);
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) make(2);
  }).join();
  make(3);
  const RankSeen seen = seen_in(*recorder);
  EXPECT_EQ(seen.calls, 1002U);
  EXPECT_EQ(seen.recent.size(), 2U + Recorder::calls_of_others) << "the owner's calls are still there";
  EXPECT_EQ(seen.recent.front().sequence, 1U);
  EXPECT_EQ(seen.recent.back().sequence, 3U);
}

// An asynchronous call may be over when its entry has long been given to another one.
TEST(Recorder, AnEntryBelongsToOneCall) {
  const auto recorder = Recorder::make_private();
  const Recorder::Call old = recorder->queue(call(1));
  for (std::uint64_t i = 2; i < 2 + Recorder::own_calls; ++i) {
    Recording recording(*recorder, call(i));
    recording.succeed();
  }
  recorder->run(old);
  recorder->wait(old, 3, 1);
  recorder->end(old, false);
  for (const auto& each : seen_in(*recorder).recent) {
    EXPECT_EQ(each.state, CallState::done);
    EXPECT_EQ(each.waited_for, -1);
  }
}

TEST(Recorder, TheRecorderTellsWhoIsWaitedForAndHowLong) {
  const auto recorder = Recorder::make_private();
  const Recorder::Call waiting = recorder->begin(call(1));
  EXPECT_EQ(seen_in(*recorder).recent.at(0).begun, 0U) << "a small call that does not wait takes no time for it";
  recorder->wait(waiting, 5, 3);
  const auto now = seen_in(*recorder).recent.at(0);
  EXPECT_EQ(now.state, CallState::waiting);
  EXPECT_EQ(now.waited_for, 5);
  EXPECT_EQ(now.waited_count, 3U);
  EXPECT_GT(now.begun, 0U);
  recorder->end(waiting, true);
  recorder->end(waiting, false);  // what was over stays
  recorder->wait(waiting, 6, 1);
  const RankSeen seen = seen_in(*recorder);
  EXPECT_EQ(seen.recent.at(0).state, CallState::done);
  EXPECT_EQ(seen.recent.at(0).waited_for, 5);
  EXPECT_GT(seen.waited, 0U);
}

TEST(Recorder, TheFirstFailureStays) {
  const auto recorder = Recorder::make_private();
  recorder->set_failure("rank 3 was killed by SIGKILL");
  recorder->set_failure("rank 4 has left");
  const RankSeen seen = seen_in(*recorder);
  EXPECT_EQ(seen.failure, "rank 3 was killed by SIGKILL");
  EXPECT_EQ(seen.failures, 2U);
  EXPECT_EQ(seen.state, recorder::RankState::failed);
}

TEST(Recorder, MoreGroupsThanItHasRoomForAreRecorded) {
  const auto recorder = Recorder::make_private();
  std::uint16_t first = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    last = recorder->add_group("group " + std::to_string(i), 2);
    if (i == 0) first = last;
  }
  for (const std::uint16_t group : {first, last}) {
    Recording recording(*recorder, call(1, group));
    recording.succeed();
  }
  EXPECT_EQ(seen_in(*recorder).recent.at(0).group, "an earlier group");
  EXPECT_EQ(seen_in(*recorder).recent.at(1).group, "group 199");
}

TEST(Recorder, LongTextsKeepWhatSaysMost) {
  recorder::FixedText<8> text;
  text.set("0123456789");
  EXPECT_EQ(text.get(), "01234567");
  text.set("0123456789", recorder::FixedText<8>::Keep::end);
  EXPECT_EQ(text.get(), "23456789");
  text.set("");
  EXPECT_EQ(text.get(), "");
}

// By its memory file a process's record is found from outside, and a child of fork has one of its own.
TEST(Recorder, TheRecorderIsFoundByItsFile) {
  const auto before = recorder::of_process();
  {
    Recording recording(*before, call(41));
    recording.succeed();
  }
  const auto found = found_of(::getpid());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().recent.back().sequence, 41U);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto own = recorder::of_process();
    Recording recording(*own, call(42));
    recording.succeed();
    ::_exit(own->header().pid.load() == ::getpid() && found_of(::getpid()).size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(found_of(::getpid()).front().recent.back().sequence, 41U) << "the child's call is not in it";
}

// Whoever keeps the descriptor reads the record of a rank that has ended.
TEST(Recorder, TheRecorderOutlivesTheRankWhereSomebodyKeepsIt) {
  const base::FileDescriptor kept = recorder::make_record_file();
  ASSERT_TRUE(kept);
  EXPECT_EQ(RecordReader::open(kept), nullptr) << "nobody has written it yet";
  const auto child_with = [&](std::uint64_t sequence) {
    const pid_t child = ::fork();
    if (child == 0) {
      base::Environment::become(
          base::Environment(std::map<std::string, std::string, std::less<>>{{recorder::record_variable, std::to_string(kept.get())}}));
      const auto own = Recorder::make();
      const Recorder::Call left = own->begin(call(sequence));
      ::kill(::getpid(), SIGKILL);
      static_cast<void>(left);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return child;
  };
  for (const std::uint64_t sequence : {1U, 2U}) {  // the second program of a shell takes the place of the first
    const pid_t child = child_with(sequence);
    const auto reader = RecordReader::open(kept);
    ASSERT_NE(reader, nullptr);
    const RankSeen seen = reader->read();
    EXPECT_EQ(seen.pid, child);
    ASSERT_EQ(seen.recent.size(), 1U);
    EXPECT_EQ(seen.recent.front().sequence, sequence);
    EXPECT_EQ(seen.recent.front().state, CallState::running);
  }
}

/// Carries out a function in a child with these variables. Returns whether it returned true there.
bool in_child(std::map<std::string, std::string, std::less<>> variables, const std::function<bool()>& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    base::Environment::become(base::Environment(std::move(variables)));
    ::_exit(function() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(Recorder, ASignalWritesItsFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(in_child({{recorder::folder_variable, folder.path()}}, [&] {
    const auto own = recorder::of_process();
    own->set_identity({.rank = 3, .size = 4, .local_rank = 3, .node = 0, .host = "here", .job = "a/job"});
    const Recorder::Call under_way = own->begin(call(5));
    own->wait(under_way, 2, 1);
    const std::string path = folder.path() + "/a_job.3." + std::to_string(::getpid()) + ".record";
    // A child of fork has the handler as well, and writes nothing of its parent.
    if (!in_child({}, [] { return ::raise(SIGUSR2) == 0; }) || std::filesystem::exists(path)) return false;
    ::raise(SIGUSR2);
    const auto copy = RecordReader::open_copy(path);
    if (!copy) return false;
    const RankSeen seen = copy->read();
    own->end(under_way, true);
    const bool is_whole =
        seen.rank == 3 && seen.is_copy && seen.job == "a/job" && seen.recent.size() == 1 && seen.recent[0].state == CallState::waiting;
    return is_whole && seen.now >= seen.recent[0].begun && RecordReader::open_copy(path)->read().recent[0].state == CallState::waiting;
  }));
}

TEST(Recorder, AFailureWritesItsFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(in_child({{recorder::folder_variable, folder.path()}}, [&] {
    const auto own = recorder::of_process();
    own->set_identity({.rank = 0, .size = 2, .local_rank = 0, .node = 0, .host = "here", .job = "job"});
    own->set_failure("rank 1 was killed");
    const auto copy = RecordReader::open_copy(folder.path() + "/" + recorder::file_name_of("job", 0, ::getpid()));
    return copy && copy->read().failure == "rank 1 was killed" && copy->read().state == recorder::RankState::failed;
  }));
}

// A record that cannot be written is no reason to end.
TEST(Recorder, AFolderThatCannotBeMade) {
  EXPECT_TRUE(in_child({{recorder::folder_variable, "/proc/self/status/records"}, {"UNISONO_LOG", "error"}}, [&] {
    const auto own = recorder::of_process();
    own->set_identity({.rank = 0, .size = 2, .local_rank = 0, .node = 0, .host = "here", .job = "job"});
    own->set_failure("rank 1 was killed");
    return true;
  }));
}

TEST(Record, ARankHasARecord) {
  run_threads(3, [](int rank) {
    std::vector<float> x(2000, 1.0F);
    all_reduce(x);
    const int line = __LINE__ - 1;
    broadcast(x, Rank(2));
    auto work = all_reduce_async(x);
    work.wait();
    if (rank == 0) send(x, Rank(1));
    if (rank == 1) recv(x, Rank(0));
    const std::vector<CallRecord> calls = record();
    const auto last = [&](const std::string& operation) {
      const auto found = std::find_if(calls.rbegin(), calls.rend(), [&](const CallRecord& each) { return each.operation == operation; });
      return found == calls.rend() ? CallRecord{} : *found;
    };
    EXPECT_EQ(last("broadcast").peer, 2);
    EXPECT_EQ(last("broadcast").sequence, 2U);
    EXPECT_EQ(last("all_reduce").sequence, 3U);
    EXPECT_TRUE(last("all_reduce").queued);
    EXPECT_TRUE(last("all_reduce").begun);
    EXPECT_TRUE(last("all_reduce").done);
    const auto first = std::find_if(calls.begin(), calls.end(), [](const CallRecord& each) { return each.operation == "all_reduce"; });
    ASSERT_NE(first, calls.end());
    EXPECT_EQ(first->place, "recorder_test.cpp:" + std::to_string(line));
    EXPECT_EQ(first->bytes, 8000U);
    EXPECT_EQ(first->dtype, DType::float32);
    EXPECT_EQ(first->group, "world");
    EXPECT_EQ(first->state, CallRecord::State::done);
    EXPECT_EQ(last("send").peer, rank == 0 ? std::optional(1) : std::nullopt);
    EXPECT_EQ(last("recv").peer, rank == 1 ? std::optional(0) : std::nullopt);
  });
}

// What `unisono trace` writes: events for Perfetto, a page, and the ranges of a profiler in both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "made_trace.h"
#include "trace/page.h"
#include "trace/totals.h"
#include "trace_reading.h"
#include "unisono/error.h"

using namespace unisono;
using namespace unisono::testing;
using namespace unisono::tools;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST(TraceFiles, EventsAreThoseOfChrome) {
  const TemporaryFolder folder;
  make_late_rank(folder.path());
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  write_chrome_trace(trace, merge, {}, folder.file("trace.json"));
  const Json events = Json::parse(text_of(folder.file("trace.json"))).at("traceEvents");
  std::map<std::string, int> phases;
  for (const Json& event : events) {
    ++phases[event.at("ph").get<std::string>()];
    if (event.at("ph") == "s") {
      EXPECT_EQ(event.at("pid"), 1) << "from the rank that was waited for";
    }
    if (event.at("ph") == "f") {
      EXPECT_EQ(event.at("pid"), 0);
    }
  }
  EXPECT_EQ(phases["s"], 2);
  EXPECT_EQ(phases["f"], 2);
  EXPECT_EQ(phases["X"], 4 + 2) << "the calls, and two waits";
  const auto late = std::ranges::find_if(events, [](const Json& e) { return e.at("ph") == "X" && e.at("pid") == 0 && e.at("ts") == 4000; });
  ASSERT_NE(late, events.end());
  EXPECT_EQ(late->at("name"), "all_reduce");
  EXPECT_EQ(late->at("dur"), 7000);
  EXPECT_EQ(late->at("args").at("waited_for"), 1);
  EXPECT_EQ(late->at("args").at("waited_us"), 5000);
  EXPECT_EQ(late->at("args").at("group"), "world");
  EXPECT_EQ(late->at("args").at("bytes"), 200);
  EXPECT_EQ(late->at("args").at("dtype"), "float32");
}

TEST(TraceFiles, NothingIsWrittenThroughALink) {
  const TemporaryFolder folder;
  make_late_rank(folder.path());
  JobTrace trace = open_traces(folder.path(), "");
  std::ofstream(folder.file("victim")) << "precious";
  for (const char* const name : {"trace.json.new", "trace.html.new"}) std::filesystem::create_symlink(folder.file("victim"), folder.file(name));
  const Merge merge(trace);
  write_chrome_trace(trace, merge, {}, folder.file("trace.json"));
  write_page(trace, merge, totals_of(trace, merge), {}, folder.file("trace.html"));
  EXPECT_EQ(text_of(folder.file("victim")), "precious");
}

TEST(TraceFiles, APageHoldsItsData) {
  const TemporaryFolder folder;
  make_trace(folder.path(), {.rank = 0, .size = 1, .job = "</script><b>", .calls = {{.begun = began + ms, .done = began + 3 * ms, .sequence = 1}}});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  write_page(trace, merge, totals_of(trace, merge), {}, folder.file("trace.html"));
  const std::string page = text_of(folder.file("trace.html"));
  const Json data = data_of(page);
  EXPECT_EQ(data.at("job"), "</script><b>");
  EXPECT_EQ(data.at("ranks").at(0).at("c"), (Json{0, 1 * ms, 2 * ms, 0, -1, 1, 0}));
  EXPECT_EQ(data.at("kinds").at(0).at(0), "all_reduce");
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

// Of more calls than a page can hold, the shortest are left out.
TEST(TraceFiles, APageLeavesOutTheShortestCalls) {
  const TemporaryFolder folder;
  std::vector<MadeCall> calls;
  for (std::uint64_t i = 0; i < 100; ++i)
    calls.push_back({.begun = began + i * ms, .done = began + i * ms + (i % 10 == 0 ? 900 * us : us), .sequence = i + 1});
  make_trace(folder.path(), {.rank = 0, .size = 1, .calls = calls});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  write_page(trace, merge, totals_of(trace, merge), {}, folder.file("trace.html"), 50);
  const Json data = data_of(text_of(folder.file("trace.html")));
  const Json& shown = data.at("ranks").at(0).at("c");
  std::size_t long_ones = 0;
  for (std::size_t i = 0; i < shown.size(); i += 7) long_ones += shown.at(i + 2) == 900 * us ? 1 : 0;
  EXPECT_EQ(long_ones, 10U) << "all of them, and a part of the others";
  EXPECT_GE(shown.size(), 45U * 7);
  EXPECT_LE(shown.size(), 50U * 7);
  EXPECT_EQ(data.at("left_out"), 100 - shown.size() / 7);
  EXPECT_GT(data.at("shortest"), us);
  EXPECT_EQ(data.at("ranks").at(0).at("calls"), 100);
}

// A damaged file holds any times. What they come to is of no use, but it is written.
TEST(TraceFiles, TimesBeyondAnyClockAreMerged) {
  constexpr std::uint64_t latest = ~std::uint64_t{0}, middle = std::uint64_t{1} << 63;
  const TemporaryFolder folder;
  make_trace(folder.path(), {.rank = 0,
                             .began = latest,
                             .real = 0,
                             .calls = {{.begun = latest, .done = middle, .sequence = 1}, {.begun = 1, .done = latest, .sequence = 2}}});
  make_trace(folder.path(), {.rank = 1,
                             .host = "b",
                             .began = 0,
                             .real = middle,
                             .calls = {{.begun = middle, .done = 1, .sequence = 1}, {.begun = 1, .done = middle, .sequence = 2}}});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  merge.each([](const Slice& slice) { EXPECT_LE(slice.begin, slice.end); });
  std::ofstream(folder.file("profile.json"))
      << R"({"traceEvents": [{"ph": "X", "name": "x", "ts": 1e300, "dur": -1e300}, {"ph": "X", "name": "y", "ts": -1e18, "dur": 1e15}],
    "baseTimeNanoseconds": -9e200})";
  write_chrome_trace(trace, merge, {{.rank = 1, .path = folder.file("profile.json")}}, folder.file("trace.json"));
  EXPECT_TRUE(Json::accept(text_of(folder.file("trace.json"))));
  write_page(trace, merge, totals_of(trace, merge), {}, folder.file("trace.html"));
  EXPECT_TRUE(data_of(text_of(folder.file("trace.html"))).is_object());
  EXPECT_EQ(whole_ns(1e300), 9'200'000'000'000'000'000);
  EXPECT_EQ(whole_ns(-1e300), -9'200'000'000'000'000'000);
  EXPECT_EQ(whole_ns(std::nan("")), 0);
}

TEST(TraceFiles, RangesOfAProfilerAreShown) {
  const TemporaryFolder folder;
  make_late_rank(folder.path());
  // The traces of both ranks began at 5 s of the day.
  std::ofstream(folder.file("profile.json")) << R"({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "step <1>", "pid": 7, "tid": 7, "ts": 1002000.5, "dur": 3000, "args": {"External id": 4}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 7, "ts": 1003000, "dur": 1000},
    {"ph": "X", "cat": "cpu_op", "name": "long ago", "pid": 7, "tid": 7, "ts": 10, "dur": 10},
    {"ph": "i", "name": "no range", "pid": 7, "tid": 7, "ts": 1003000}], "baseTimeNanoseconds": 4000000000})";
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const ProfilerFile profile = parse_profiler_file("1=" + folder.file("profile.json"));
  write_chrome_trace(trace, merge, {profile}, folder.file("trace.json"));
  std::vector<Json> found;
  const Json all = Json::parse(text_of(folder.file("trace.json")));
  for (const Json& event : all.at("traceEvents")) {
    if (event.at("tid") == 1000 && event.at("ph") == "X") found.push_back(event);
  }
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("name"), "step <1>");
  EXPECT_EQ(found[0].at("pid"), 1);
  EXPECT_EQ(found[0].at("ts"), 2000.5);
  EXPECT_EQ(found[0].at("args").at("External id"), 4);
  write_page(trace, merge, totals_of(trace, merge), {profile}, folder.file("trace.html"));
  const Json ranges = data_of(text_of(folder.file("trace.html"))).at("profiles").at("1");
  EXPECT_EQ(ranges.at("ranges"), (Json{0, 2 * ms + 500, 3 * ms, 0, 1, 3 * ms, 1 * ms, 1}));
  for (const char* wrong : {"profile.json", "x=profile.json", "-1=a", "0="}) EXPECT_THROW(parse_profiler_file(wrong), InvalidArgument) << wrong;
  const auto ranges_in = [&](const std::string& text) {
    std::ofstream(folder.file("wrong.json")) << text;
    each_range({.rank = 0, .path = folder.file("wrong.json")}, trace, [](const ProfilerRange&) {});
  };
  for (const char* wrong : {"", "[1, 2]", "{\"traceEvents\": [", "{}"}) EXPECT_THROW(ranges_in(wrong), InvalidArgument) << wrong;
}

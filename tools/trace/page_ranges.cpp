#include "trace/page_ranges.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "trace/text_file.h"

namespace unisono::tools {
namespace {

constexpr std::size_t most_ranges = 200'000;
constexpr std::size_t most_threads = 4, most_depth = 3;

struct PageRange {
  std::uint64_t begin = 0, end = 0;
  std::size_t name = 0;
};

struct PageThread {
  std::string name;
  std::vector<PageRange> ranges;
  std::uint64_t time = 0;
};

/// Leaves the longest ones.
void keep_longest(std::vector<PageRange>& ranges, std::size_t most) {
  if (ranges.size() <= most) return;
  const auto last = ranges.begin() + static_cast<std::ptrdiff_t>(most);
  std::ranges::nth_element(ranges, last, std::greater<>{}, [](const PageRange& range) { return range.end - range.begin; });
  ranges.erase(last, ranges.end());
}

struct Collected {
  std::vector<PageThread> threads;
  std::vector<std::string> names;
};

Collected collect(const ProfilerFile& file, const JobTrace& trace) {
  Collected all;
  std::map<std::string, std::size_t> threads;
  std::unordered_map<std::string, std::size_t> names;
  each_range(file, trace, [&](const ProfilerRange& range) {
    const auto [thread, is_new_thread] = threads.try_emplace(range.thread, all.threads.size());
    if (is_new_thread) all.threads.push_back({.name = range.thread, .ranges = {}});
    const auto [name, is_new_name] = names.try_emplace(range.name, all.names.size());
    if (is_new_name) all.names.push_back(range.name);
    PageThread& to = all.threads[thread->second];
    to.ranges.push_back({.begin = range.begin, .end = range.end, .name = name->second});
    to.time += range.end - range.begin;
    if (to.ranges.size() > 2 * most_ranges) keep_longest(to.ranges, most_ranges);
  });
  std::ranges::sort(all.threads, std::greater<>{}, &PageThread::time);
  if (all.threads.size() > most_threads) all.threads.resize(most_threads);
  return all;
}

}  // namespace

std::string page_ranges(const ProfilerFile& file, const JobTrace& trace) {
  Collected all = collect(file, trace);
  std::string lanes, ranges, names;
  std::size_t first_lane = 0;
  for (PageThread& thread : all.threads) {
    keep_longest(thread.ranges, most_ranges);
    std::ranges::sort(thread.ranges, [](const PageRange& a, const PageRange& b) { return std::pair(a.begin, b.end) < std::pair(b.begin, a.end); });
    std::vector<std::uint64_t> open;  // the ends of those around
    std::size_t deepest = 0;
    for (const PageRange& range : thread.ranges) {
      while (!open.empty() && open.back() <= range.begin) open.pop_back();
      const std::size_t depth = open.size();
      open.push_back(range.end);
      if (depth >= most_depth) continue;
      deepest = std::max(deepest, depth + 1);
      ranges += fmt::format("{}{},{},{},{}", ranges.empty() ? "" : ",", range.name, range.begin, range.end - range.begin, first_lane + depth);
    }
    for (std::size_t i = 0; i < deepest; ++i) lanes.append(lanes.empty() ? "" : ",").append(json_string("torch " + thread.name));
    first_lane += deepest;
  }
  for (const std::string& name : all.names) names.append(names.empty() ? "" : ",").append(json_string(name));
  return fmt::format("{{\"lanes\":[{}],\"names\":[{}],\"ranges\":[{}]}}", lanes, names, ranges);
}

}  // namespace unisono::tools

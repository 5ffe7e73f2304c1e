#include "trace/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "trace/text_file.h"
#include "unisono/tensor.h"

namespace unisono::tools {

/// What page_parts.cpp.in holds: the page in front of its data and behind it.
extern const std::string_view page_head, page_script;

namespace {

constexpr std::size_t most_steps = 20'000;

/// Chooses the calls that a page shows: all of a duration from `all_from` on, and of those between it and half of it a part.
class Choice {
 public:
  Choice(const Merge& merge, std::uint64_t most_calls) {
    std::array<std::uint64_t, 65> calls{};  // by the bits of their durations
    merge.each([&](const Slice& slice) { ++calls[bits_of(slice)]; });
    std::uint64_t shown = 0;
    for (std::size_t bits = calls.size(); bits-- > 0;) {
      if (shown + calls[bits] > most_calls) {
        of_part_ = bits;
        part_ = static_cast<double>(most_calls - shown) / static_cast<double>(calls[bits]);
        return;
      }
      shown += calls[bits];
    }
  }

  bool takes(const Slice& slice) {
    const std::size_t bits = bits_of(slice);
    if (!of_part_ || bits > *of_part_) return true;
    if (bits < *of_part_) return false;
    due_ += part_;
    if (due_ < 1) return false;
    due_ -= 1;
    return true;
  }
  std::uint64_t all_from() const { return of_part_ ? std::uint64_t{1} << std::min<std::size_t>(*of_part_, 63) : 0; }

 private:
  static std::size_t bits_of(const Slice& slice) { return static_cast<std::size_t>(std::bit_width(slice.end - slice.begin)); }

  std::optional<std::size_t> of_part_;
  double part_ = 1, due_ = 0;
};

std::string_view state_text(recorder::RankState state) {
  switch (state) {
    case recorder::RankState::left: return "left";
    case recorder::RankState::failed: return "failed";
    default: return "ended";
  }
}

/// The kinds of calls: what calls have in common, so that a page says it once. A kind is an operation with its group, dtype, bytes, place and peer.
class PageKinds {
 public:
  PageKinds(const JobTrace& trace, const Merge& merge) : trace_(trace), merge_(merge) {}

  std::size_t index_of(const Slice& slice) {
    if (slice.rank != rank_) {
      rank_ = slice.rank;
      of_rank_.clear();
    }
    const recorder::TracedCall& call = *slice.call;
    const auto [known, is_new] = of_rank_.try_emplace(Key{call.bytes, call.group, call.place, call.operation, call.label, call.dtype, call.peer});
    if (!is_new) return known->second;
    std::string text = text_of(slice);
    const auto [found, is_first] = indices_.try_emplace(text, texts_.size());
    if (is_first) texts_.push_back(std::move(text));
    return known->second = found->second;
  }
  /// Returns each kind as JSON.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  using Key = std::tuple<std::uint64_t, std::uint16_t, std::uint16_t, std::uint8_t, std::uint8_t, std::uint8_t, int>;

  std::string text_of(const Slice& slice) const {
    const recorder::TracedCall& call = *slice.call;
    const TracedRank& rank = trace_.ranks[slice.rank];
    const recorder::TraceReader& reader = *rank.reader;
    return fmt::format("[{},{},{},{},{},{}]", json_string(reader.operation(call)), json_string(merge_.groups()[slice.group].name),
                       json_string(to_string(static_cast<DType>(call.dtype))), call.bytes, json_string(reader.place(call.place)),
                       trace_.number_of(rank.generation_of(call.group), call.peer));
  }

  const JobTrace& trace_;
  const Merge& merge_;
  std::size_t rank_ = SIZE_MAX;
  std::map<Key, std::size_t> of_rank_;  // by the numbers that this rank has for its texts
  std::map<std::string, std::size_t> indices_;
  std::vector<std::string> texts_;
};

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
template <class Each, class Length>
void keep_longest(std::vector<Each>& list, std::size_t most, Length length_of) {
  if (list.size() <= most) return;
  std::ranges::nth_element(list, list.begin() + static_cast<std::ptrdiff_t>(most), std::greater<>{}, length_of);
  list.resize(most);
}

std::uint64_t length_of(const PageRange& range) { return range.end - range.begin; }

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
    if (is_new_name) all.names.push_back(json_string(range.name));
    PageThread& to = all.threads[thread->second];
    to.ranges.push_back({.begin = range.begin, .end = range.end, .name = name->second});
    to.time += range.end - range.begin;
    if (to.ranges.size() > 2 * most_ranges) keep_longest(to.ranges, most_ranges, length_of);
  });
  std::ranges::sort(all.threads, std::greater<>{}, &PageThread::time);
  if (all.threads.size() > most_threads) all.threads.resize(most_threads);
  return all;
}

/// Returns a profiler's ranges as the page wants them, as JSON: the outermost ones of the threads in which most time is spent, each in a lane.
std::string page_ranges(const ProfilerFile& file, const JobTrace& trace) {
  Collected all = collect(file, trace);
  std::vector<std::string> lanes;
  std::string ranges;
  std::size_t first_lane = 0;
  for (PageThread& thread : all.threads) {
    keep_longest(thread.ranges, most_ranges, length_of);
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
    lanes.insert(lanes.end(), deepest, json_string("torch " + thread.name));
    first_lane += deepest;
  }
  return fmt::format("{{\"lanes\":[{}],\"names\":[{}],\"ranges\":[{}]}}", fmt::join(lanes, ","), fmt::join(all.names, ","), ranges);
}

class PageWriter {
 public:
  PageWriter(const JobTrace& trace, const Merge& merge, const Totals& totals, const std::string& path, std::uint64_t most_calls)
      : trace_(trace), merge_(merge), totals_(totals), kinds_(trace, merge), file_(path), choice_(merge, most_calls) {}

  void write(const std::vector<ProfilerFile>& profiles) {
    file_.put(page_head);
    file_.put("<script type=\"application/json\" id=\"data\">{");
    write_job();
    write_operations();
    write_steps();
    file_.put(",\n\"ranks\":[");
    for (std::size_t i = 0; i < trace_.ranks.size(); ++i) write_rank(i);
    file_.put("],\n\"kinds\":[\n");
    file_.list(kinds_.texts(), std::identity(), ",\n");
    file_.put("],\n\"profiles\":{");
    bool is_first = true;
    for (const ProfilerFile& profile : profiles) {
      const TracedRank* const rank = trace_.last_of(profile.rank);
      if (rank == nullptr) continue;
      file_.print("{}\"{}\":", std::exchange(is_first, false) ? "" : ",", rank - trace_.ranks.data());
      file_.put(page_ranges(profile, trace_));
    }
    file_.print("}},\n\"left_out\":{},\"shortest\":{}}}</script>\n", left_out_, choice_.all_from());
    file_.put(page_script);
    file_.finish();
  }

 private:
  void write_job() {
    file_.print("\"job\":{},\"program\":{},\"size\":{},\"missing\":{},\"span\":{},\"began\":{},\"came\":{},\"lost\":{},\"clocks\":[",
                json_string(trace_.name), json_string(trace_.program), trace_.size, trace_.size - trace_.places(), trace_.span,
                trace_.real_origin / 1'000'000, json_string(latecomers_text(trace_)), json_string(lost_text(trace_, totals_)));
    file_.list(clock_texts(trace_), json_string);
    file_.put("],\"verdict\":[");
    file_.list(verdict_of(trace_, totals_), json_string);
    file_.put("]");
  }

  void write_operations() {
    file_.put(",\n\"operations\":[");
    file_.list(totals_.operations, [](const auto& each) {
      const auto& [name, operation] = each;
      return fmt::format("[{},{},{},{},{}]", json_string(name), operation.calls, operation.bytes, operation.time, operation.waiting);
    });
    file_.put("]");
  }

  /// The rank that came last to each collective of the largest group, and how much later than the first one.
  void write_steps() {
    std::vector<Meeting> steps;
    merge_.each_step([&](const Meeting& meeting) { steps.push_back(meeting); });
    keep_longest(steps, most_steps, [](const Meeting& step) { return step.last - step.first; });
    std::ranges::sort(steps, {}, &Meeting::last);
    file_.put(",\n\"steps\":[");
    file_.list(steps, [](const Meeting& step) { return fmt::format("{},{},{}", step.last, step.last_rank, step.last - step.first); });
    file_.put("]");
  }

  void write_rank(std::size_t index) {
    const TracedRank& rank = trace_.ranks[index];
    const RankTotals& totals = totals_.ranks[index];
    file_.print("{}\n{{\"rank\":{},\"name\":{},\"host\":{},\"state\":\"{}\",\"failure\":{},\"from\":{},\"to\":{},\"calls\":{},\"bytes\":{},",
                index == 0 ? "" : ",", rank.number, json_string(rank.name), json_string(rank.about.host), state_text(rank.about.state),
                json_string(rank.about.failure), rank.from, rank.to, totals.calls, totals.bytes);
    file_.print("\"computing\":{},\"waiting\":{},\"moving\":{},\"caused\":{},\"last\":{},\"c\":[", totals.computing(), totals.waiting,
                totals.moving(), totals.caused, totals.last);
    std::int64_t before = 0;
    bool is_first = true;
    merge_.each_of(index, [&](const Slice& slice) {
      if (!choice_.takes(slice)) {
        ++left_out_;
        return;
      }
      const auto begin = static_cast<std::int64_t>(slice.begin);
      constexpr int not_over = 4, failed = 8;
      const int flags =
          static_cast<int>(slice.row) | (slice.is_over ? 0 : not_over) | (slice.call->state == recorder::CallState::failed ? failed : 0);
      file_.print("{}{},{},{},{},{},{},{}", std::exchange(is_first, false) ? "" : ",", kinds_.index_of(slice), begin - before,
                  slice.end - slice.begin, slice.waited, slice.waited_for, slice.call->sequence, flags);
      before = begin;
    });
    file_.put("]}");
  }

  const JobTrace& trace_;
  const Merge& merge_;
  const Totals& totals_;
  PageKinds kinds_;
  TextFile file_;
  Choice choice_;
  std::uint64_t left_out_ = 0;
};

}  // namespace

void write_page(const JobTrace& trace, const Merge& merge, const Totals& totals, const std::vector<ProfilerFile>& profiles, const std::string& path,
                std::uint64_t most_calls) {
  PageWriter(trace, merge, totals, path, most_calls).write(profiles);
}

}  // namespace unisono::tools

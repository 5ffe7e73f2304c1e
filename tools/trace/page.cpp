#include "trace/page.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include <fmt/format.h>

#include "trace/page_kinds.h"
#include "trace/page_ranges.h"
#include "trace/text_file.h"

namespace unisono::tools {
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
    file_.put("],\n\"kinds\":[");
    bool is_first = true;
    for (const std::string& kind : kinds_.texts()) file_.print("{}{}", std::exchange(is_first, false) ? "\n" : ",\n", kind);
    file_.put("],\n\"profiles\":{");
    is_first = true;
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
    bool is_first = true;
    for (const std::string& text : clock_texts(trace_)) file_.print("{}{}", std::exchange(is_first, false) ? "" : ",", json_string(text));
    file_.put("],\"verdict\":[");
    is_first = true;
    for (const std::string& text : verdict_of(trace_, totals_)) file_.print("{}{}", std::exchange(is_first, false) ? "" : ",", json_string(text));
    file_.put("]");
  }

  void write_operations() {
    file_.put(",\n\"operations\":[");
    bool is_first = true;
    for (const auto& [name, operation] : totals_.operations)
      file_.print("{}[{},{},{},{},{}]", std::exchange(is_first, false) ? "" : ",", json_string(name), operation.calls, operation.bytes,
                  operation.time, operation.waiting);
    file_.put("]");
  }

  /// The rank that came last to each collective of the largest group, and how much later than the first one.
  void write_steps() {
    std::vector<Meeting> steps;
    merge_.each_step([&](const Meeting& meeting) { steps.push_back(meeting); });
    if (steps.size() > most_steps) {
      const auto last = steps.begin() + most_steps;
      std::ranges::nth_element(steps, last, std::greater<>{}, [](const Meeting& step) { return step.last - step.first; });
      steps.erase(last, steps.end());
    }
    std::ranges::sort(steps, {}, &Meeting::last);
    file_.put(",\n\"steps\":[");
    bool is_first = true;
    for (const Meeting& step : steps)
      file_.print("{}{},{},{}", std::exchange(is_first, false) ? "" : ",", step.last, step.last_rank, step.last - step.first);
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

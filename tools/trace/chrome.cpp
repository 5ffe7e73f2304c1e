#include "trace/page.h"

#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/text_file.h"
#include "trace/totals.h"
#include "unisono/tensor.h"

namespace unisono::tools {
namespace {

/// Shorter waits are the normal course of a program, and get no slices and arrows of their own.
constexpr std::uint64_t shown_wait_ns = 10'000;
constexpr int first_profiler_thread = 1000;

/// Microseconds, as the format wants them, without loss.
std::string micros(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class ChromeWriter {
 public:
  ChromeWriter(const JobTrace& trace, const Merge& merge, const std::string& path) : trace_(trace), merge_(merge), file_(path) {}

  void write(const std::vector<ProfilerFile>& profiles) {
    file_.print("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"job\":{},\"program\":{},\"ranks\":{},\"lost_calls\":{},\"began_ns\":\"{}\"}},\n",
                json_string(trace_.name), json_string(trace_.program), trace_.size, trace_.lost, trace_.real_origin);
    file_.put("\"traceEvents\":[");
    for (std::size_t i = 0; i < trace_.ranks.size(); ++i) describe(i);
    merge_.each([&](const Slice& slice) { add(slice); });
    for (const ProfilerFile& profile : profiles) add(profile);
    file_.put("\n]}\n");
    file_.finish();
  }

 private:
  template <class... Values>
  void event(fmt::format_string<Values...> format, Values&&... values) {
    file_.put(std::exchange(has_events_, true) ? ",\n" : "\n");
    file_.print(format, std::forward<Values>(values)...);
  }

  void name_thread(int rank, int thread, const std::string& name) {
    event("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", rank, thread, json_string(name));
  }

  void describe(std::size_t index) {
    const TracedRank& rank = trace_.ranks[index];
    event("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":{}}}}}", rank.number,
          json_string(fmt::format("rank {} on {}", rank.name, rank.about.host)));
    event("{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"tid\":0,\"args\":{{\"sort_index\":{}}}}}", rank.number, index);
    name_thread(rank.number, 0, "calls");
  }

  /// Returns the call's name and all that is known of it, as members of an object.
  std::string details(const Slice& slice) {
    const TracedRank& rank = trace_.ranks[slice.rank];
    const recorder::TracedCall& call = *slice.call;
    std::string args = fmt::format("\"group\":{},\"sequence\":{},\"bytes\":{},\"dtype\":\"{}\"", json_string(merge_.groups()[slice.group].name),
                                   call.sequence, call.bytes, to_string(static_cast<DType>(call.dtype)));
    if (const std::string place = rank.reader->place(call.place); !place.empty()) args += ",\"place\":" + json_string(place);
    if (const int peer = trace_.number_of(rank.generation_of(call.group), call.peer); peer >= 0) args += fmt::format(",\"peer\":{}", peer);
    if (slice.waited > 0) args += fmt::format(",\"waited_us\":{}", micros(slice.waited));
    if (slice.waited_for >= 0) args += fmt::format(",\"waited_for\":{}", slice.waited_for);
    if (!slice.is_over) args += ",\"state\":\"never ended\"";
    if (call.state == recorder::CallState::failed) args += ",\"state\":\"failed\"";
    return fmt::format("\"name\":{},\"args\":{{{}}}", json_string(rank.reader->operation(call)), args);
  }

  void add(const Slice& slice) {
    const int rank = trace_.ranks[slice.rank].number;
    if (slice.row == Slice::Row::beside) {  // several at a time: they need not lie within each other
      const std::uint64_t id = ++last_id_;
      event("{{\"ph\":\"b\",\"cat\":\"asynchronous\",\"id\":{},\"pid\":{},\"tid\":0,\"ts\":{},{}}}", id, rank, micros(slice.begin), details(slice));
      event("{{\"ph\":\"e\",\"cat\":\"asynchronous\",\"id\":{},\"pid\":{},\"tid\":0,\"ts\":{},\"name\":{}}}", id, rank, micros(slice.end),
            json_string(trace_.ranks[slice.rank].reader->operation(*slice.call)));
      return;
    }
    event("{{\"ph\":\"X\",\"cat\":\"call\",\"pid\":{},\"tid\":0,\"ts\":{},\"dur\":{},{}}}", rank, micros(slice.begin),
          micros(slice.end - slice.begin), details(slice));
    if (slice.waited < shown_wait_ns || slice.waited_for < 0) return;
    event("{{\"ph\":\"X\",\"cat\":\"wait\",\"pid\":{},\"tid\":0,\"ts\":{},\"dur\":{},\"name\":\"waits for rank {}\"}}", rank, micros(slice.begin),
          micros(slice.waited), trace_.name_of(slice.waited_for));
    if (slice.late_one_blocks && slice.is_over) add_arrow(slice, rank);
  }

  /// From the beginning of the late rank's call to the moment at which this one has waited long enough.
  void add_arrow(const Slice& slice, int rank) {
    const std::uint64_t id = ++last_id_, came = slice.begin + slice.waited;
    event("{{\"ph\":\"s\",\"cat\":\"wait\",\"name\":\"was waited for\",\"id\":{},\"pid\":{},\"tid\":0,\"ts\":{}}}", id, slice.waited_for,
          micros(came));
    event("{{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"wait\",\"name\":\"was waited for\",\"id\":{},\"pid\":{},\"tid\":0,\"ts\":{}}}", id, rank,
          micros(came));
  }

  void add(const ProfilerFile& profile) {
    const TracedRank* const rank = trace_.last_of(profile.rank);
    const int process = rank == nullptr ? profile.rank : rank->number;
    std::map<std::string, int> threads;
    each_range(profile, trace_, [&](const ProfilerRange& range) {
      const auto [thread, is_new] = threads.try_emplace(range.thread, first_profiler_thread + static_cast<int>(threads.size()));
      if (is_new) name_thread(process, thread->second, "torch.profiler " + range.thread);
      const auto args = range.event->find("args");
      event("{{\"ph\":\"X\",\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"args\":{}}}", json_string(range.category), process,
            thread->second, micros(range.begin), micros(range.end - range.begin), json_string(range.name),
            args == range.event->end() ? "{}" : args->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    });
  }

  const JobTrace& trace_;
  const Merge& merge_;
  TextFile file_;
  std::uint64_t last_id_ = 0;
  bool has_events_ = false;
};

}  // namespace

void write_chrome_trace(const JobTrace& trace, const Merge& merge, const std::vector<ProfilerFile>& profiles, const std::string& path) {
  ChromeWriter(trace, merge, path).write(profiles);
}

}  // namespace unisono::tools

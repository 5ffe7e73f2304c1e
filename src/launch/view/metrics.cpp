#include "launch/view/metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/version.h"
#include "launch/view/http_server.h"
#include "launch/view/standstill.h"

namespace unisono::launcher {
namespace {

constexpr std::string_view uncounted_name = "others";

/// Returns the value of a label as the format writes it. A name that was cut in the middle of a character has '?' for what is left of that.
std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = base::character_at(text);
    if (text[0] == '\n') result += "\\n";
    else if (size == 0) result += '?';
    else if (text[0] == '\\' || text[0] == '"') result.append("\\").append(text.substr(0, 1));
    else result += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string seconds(std::uint64_t ns) {
  constexpr std::uint64_t per_second = 1'000'000'000;
  return fmt::format("{}.{:09}", ns / per_second, ns % per_second);
}

/// The page that is being written.
struct Page {
  MetricsFormat format;
  std::string text = {};
};

/// A family of metrics: its lines belong together.
class Family {
 public:
  /// `unit`: the last word of the name, where it is one.
  Family(Page& page, std::string_view name, std::string_view type, std::string_view unit, std::string_view help)
      : page_(page.text),
        sample_(std::string(name) + (type == "counter" ? "_total"
                                     : type == "info"  ? "_info"
                                                       : "")) {
    // Prometheus's own format calls a family as its samples are called, and has neither units nor these two types.
    const bool is_open = page.format == MetricsFormat::open_metrics;
    const std::string_view family = is_open ? name : sample_;
    page_ += fmt::format("# TYPE {} {}\n", family, !is_open && (type == "info" || type == "stateset") ? "gauge" : type);
    if (is_open && !unit.empty()) page_ += fmt::format("# UNIT {} {}\n", family, unit);
    page_ += fmt::format("# HELP {} {}\n", family, help);
  }
  void add(std::string_view labels, std::string_view value) {
    page_ += labels.empty() ? fmt::format("{} {}\n", sample_, value) : fmt::format("{}{{{}}} {}\n", sample_, labels, value);
  }
  void add(std::string_view labels, std::uint64_t value) { add(labels, std::to_string(value)); }

 private:
  std::string& page_;
  const std::string sample_;
};

std::string rank_label(const RankFacts& rank) { return fmt::format("rank=\"{}\"", rank.record.rank); }

/// The counts of the calls of one operation, with the wait that is under way.
struct Counted {
  std::string labels;
  std::uint64_t calls = 0, bytes = 0, waited = 0, failures = 0;
};

std::vector<Counted> counted_by(const RankFacts& rank) {
  std::map<std::string, Counted> counted;
  const auto of = [&](std::string_view group, std::string_view operation) -> Counted& {
    const std::string labels = fmt::format("{},group=\"{}\",operation=\"{}\"", rank_label(rank), escaped(group.empty() ? uncounted_name : group),
                                           escaped(operation.empty() ? uncounted_name : operation));
    Counted& found = counted[labels];
    found.labels = labels;
    return found;
  };
  for (const recorder::CountSeen& count : rank.record.counts) {
    Counted& sum = of(count.group, count.operation);
    sum.calls += count.calls;
    sum.bytes += count.bytes;
    sum.waited += count.waited;
    sum.failures += count.failures;
  }
  const recorder::CallSeen* call = call_shown(rank);
  if (call != nullptr && call->count >= 0 && rank.process.lives) {
    const recorder::CountSeen& count = rank.record.counts.at(static_cast<std::size_t>(call->count));
    of(count.group, count.operation).waited += wait_under_way(rank);
  }
  std::vector<Counted> all;
  for (auto& [labels, each] : counted) all.push_back(std::move(each));
  return all;
}

/// Returns for how long the rank has been in the call that it shows, or out of it. Nothing where that is not known.
std::optional<std::uint64_t> age_of(const RankFacts& rank) {
  const recorder::CallSeen* call = call_shown(rank);
  if (call == nullptr) return std::nullopt;
  const std::uint64_t at = call->is_over() ? call->done : std::max(call->queued, call->begun);
  return at == 0 || at > rank.record.now ? std::nullopt : std::optional(rank.record.now - at);
}

void write_job(Page& page, const JobSeen& job) {
  Family(page, "unisono_job", "info", "", "The job that this launcher has started.")
      .add(fmt::format("id=\"{}\",host=\"{}\",node=\"{}\",version=\"{}\"", escaped(job.job), escaped(job.host), job.node,
                       base::to_string(base::library_version())),
           "1");
  Family(page, "unisono_job_ranks", "gauge", "", "The ranks of the job on all hosts.").add("", std::to_string(job.world_size));
  Family(page, "unisono_host_ranks", "gauge", "", "The ranks of the job on this host.").add("", job.ranks.size());
  Family(page, "unisono_restarts", "counter", "",
         "How often all ranks were started again after a failure. All other counters begin anew then. Those of a rank are of the "
         "process that has the rank now.")
      .add("", std::to_string(job.restarts));
}

void write_states(Page& page, const JobSeen& job) {
  Family states(page, "unisono_rank_state", "stateset", "", "The state of the rank.");
  for (const RankFacts& rank : job.ranks) {
    for (const std::string_view state : rank_states)
      states.add(fmt::format("{},unisono_rank_state=\"{}\"", rank_label(rank), state), state_text(rank) == state ? "1" : "0");
  }
  Family ages(page, "unisono_last_call_age_seconds", "gauge", "seconds",
              "For how long the rank has been in its call, or out of all calls since the last one was over.");
  for (const RankFacts& rank : job.ranks) {
    if (const auto age = age_of(rank)) ages.add(rank_label(rank), seconds(*age));
  }
  Family late(page, "unisono_rank_late_seconds", "gauge", "seconds",
              "For how long ranks of this host have waited for the rank; without those that none waits for.");
  std::map<int, std::uint64_t> waited;  // a rank may be late for several calls
  for (const Delay& delay : delays_of(job.ranks, 1)) waited[delay.late] = std::max(waited[delay.late], delay.for_ns);
  for (const auto& [rank, for_ns] : waited) late.add(fmt::format("rank=\"{}\"", rank), seconds(for_ns));
  Family failures(page, "unisono_rank_failures", "counter", "", "Failures by which groups of the rank have ended.");
  for (const RankFacts& rank : job.ranks) failures.add(rank_label(rank), rank.record.failures);
}

void write_processes(Page& page, const JobSeen& job) {
  Family cpu(page, "unisono_process_cpu_seconds", "counter", "seconds", "Processor time of the rank's process.");
  for (const RankFacts& rank : job.ranks) {
    if (rank.process.lives) cpu.add(rank_label(rank), fmt::format("{:.2f}", rank.process.cpu_seconds));
  }
  Family memory(page, "unisono_process_resident_memory_bytes", "gauge", "bytes", "Memory that the rank's process has in use.");
  for (const RankFacts& rank : job.ranks) {
    if (rank.process.lives) memory.add(rank_label(rank), rank.process.memory_bytes);
  }
}

}  // namespace

std::string_view media_type(MetricsFormat format) {
  return format == MetricsFormat::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

MetricsFormat metrics_format(std::string_view accept) {
  const double open_metrics = weight_of_type(accept, "application/openmetrics-text");
  return open_metrics > 0 && open_metrics >= weight_of_type(accept, "text/plain") ? MetricsFormat::open_metrics : MetricsFormat::text;
}

std::string Metrics::text(MetricsFormat format) {
  const JobSeen job = look_();
  std::vector<Counted> counted;
  for (const RankFacts& rank : job.ranks) {
    ToldWaits& told = told_waits_[rank.record.rank];
    if (std::exchange(told.began, rank.record.began) != rank.record.began) told.by_labels.clear();
    for (Counted& each : counted_by(rank)) {
      std::uint64_t& waited = told.by_labels[each.labels];
      waited = each.waited = std::max(waited, each.waited);
      counted.push_back(std::move(each));
    }
  }
  Page page{.format = format};
  write_job(page, job);
  write_states(page, job);
  Family calls(page, "unisono_calls", "counter", "", "Calls that have begun.");
  for (const Counted& each : counted) calls.add(each.labels, each.calls);
  Family bytes(page, "unisono_call_bytes", "counter", "bytes", "Bytes that the rank gave to its calls, or took where it gave none.");
  for (const Counted& each : counted) bytes.add(each.labels, each.bytes);
  Family waits(page, "unisono_call_wait_seconds", "counter", "seconds",
               "Time in calls that had to wait for other ranks for longer than a few microseconds, with the call under way.");
  for (const Counted& each : counted) waits.add(each.labels, seconds(each.waited));
  Family failures(page, "unisono_call_failures", "counter", "", "Calls that have thrown.");
  for (const Counted& each : counted) failures.add(each.labels, each.failures);
  write_processes(page, job);
  if (format == MetricsFormat::open_metrics) page.text += "# EOF\n";
  return std::move(page.text);
}

}  // namespace unisono::launcher

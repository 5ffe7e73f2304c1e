#include "status/report.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "launch/view/standstill.h"
#include "common/json.h"
#include "common/text.h"

namespace unisono::tools {
namespace {

using launcher::call_shown;
using launcher::call_text;
using launcher::Delay;
using launcher::delays_of;
using launcher::duration_text;
using launcher::state_name;
using launcher::state_text;
using launcher::told_delay_ns;
using launcher::waiting_share;

std::string share_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string age_text(const recorder::CallSeen& call, std::uint64_t now) {
  const std::uint64_t at = call.is_over() ? call.done : std::max(call.queued, call.begun);
  return at == 0 || at > now ? "" : duration_text(now - at);
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double next = 1024;
  std::size_t unit = 0;
  for (; bytes >= next && unit + 1 < units.size(); ++unit) bytes /= next;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, units[unit]);
}

Json call_json(const recorder::CallSeen& call) {
  Json json;
  put(json, "operation", call.operation);
  put(json, "group", call.group);
  put(json, "sequence", call.sequence);
  put(json, "state", state_name(call.state));
  put(json, "bytes", call.bytes);
  put(json, "dtype", to_string(call.dtype));
  if (call.peer >= 0) put(json, "peer", call.peer);
  if (is_message(call.kind)) put(json, "tag", call.tag);
  if (!call.place.empty()) put(json, "place", call.place);
  if (call.queued != 0) put(json, "queued_ns", call.queued);
  if (call.begun != 0) put(json, "begun_ns", call.begun);
  if (call.done != 0) put(json, "done_ns", call.done);
  if (call.waited_for >= 0) {
    put(json, "waited_for", call.waited_for);
    put(json, "waited_for_count", call.waited_count);
  }
  return json;
}

Json delay_json(const Delay& delay) {
  Json json;
  put(json, "rank", delay.late);
  put(json, "waited_ns", delay.for_ns);
  put(json, "text", delay.text);
  put(json, "advice", delay.advice);
  put(json, "call", call_json(delay.call));
  if (!delay.circle.empty()) put(json, "circle", delay.circle);
  return json;
}

Json rank_json(const RankFacts& rank, bool with_calls) {
  const recorder::RankSeen& record = rank.record;
  Json json;
  put(json, "rank", record.rank);
  put(json, "pid", record.pid);
  put(json, "host", record.host);
  put(json, "state", state_text(rank));
  put(json, "now_ns", record.now);
  put(json, "calls", record.calls);
  put(json, "bytes", record.bytes);
  put(json, "waited_ns", record.waited);
  put(json, "waiting_share", waiting_share(rank));
  put(json, "cpu_seconds", rank.process.cpu_seconds);
  put(json, "cpu_share", rank.process.cpu_share);
  put(json, "memory_bytes", rank.process.memory_bytes);
  if (!record.failure.empty()) put(json, "failure", record.failure);
  if (const auto* call = call_shown(rank)) put(json, "call", call_json(*call));
  if (with_calls) {
    put(json, "recent", Json::array());
    for (const auto& call : record.recent) json["recent"].push_back(call_json(call));
  }
  return json;
}

Json stack_json(const Stack& stack) {
  Json json;
  put(json, "rank", stack.rank);
  put(json, "tool", stack.tool);
  put(json, "frames", stack.frames);
  put(json, "python", stack.python);
  put(json, "problem", stack.problem);
  return json;
}

/// Returns who is waited for, and what to look at.
std::string delays_text(const JobFacts& job, std::size_t columns) {
  std::string text;
  for (const Delay& delay : delays_of(job.ranks, told_delay_ns)) {
    text += "  " + wrap(delay.text, 4, 2, columns) + "\n";
    if (!delay.advice.empty()) text += "    " + wrap("→ " + delay.advice, 6, 4, columns) + "\n";
  }
  return text;
}

}  // namespace

std::string status_text(const JobFacts& job, std::size_t columns) {
  std::set<std::string> hosts;
  for (const RankFacts& rank : job.ranks) hosts.insert(rank.record.host);
  const bool is_elsewhere = std::ranges::any_of(job.ranks, [](const RankFacts& rank) { return !rank.is_here; });
  const std::string where = job.is_copy    ? "have left their records; they were written"
                            : is_elsewhere ? fmt::format("are on {} host{}; it began", hosts.size(), hosts.size() == 1 ? "" : "s")
                                           : "are on this host; it began";
  std::string text = wrap(fmt::format("job {}: {}", job.name, job.program), 2, 0, columns) + "\n";
  const std::string_view since = job.is_copy ? "after it began" : "ago";
  text +=
      "  " + wrap(fmt::format("{} of {} ranks {} {} {}", job.ranks.size(), job.size, where, duration_text(job.age_ns), since), 4, 2, columns) + "\n";
  text += delays_text(job, columns);
  for (const RankFacts& rank : job.ranks) {
    const bool goes_on = rank.record.state == recorder::RankState::running;  // after shrink_group
    if (rank.record.failure.empty() || goes_on) continue;
    text += "  " + wrap(fmt::format("rank {} failed: {}", rank.record.rank, rank.record.failure), 4, 2, columns) + "\n";
  }
  text += "\n  rank  state    last call                   age  waits    cpu   memory    moved\n";
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    const RankFacts& rank = job.ranks[i];
    const bool is_next_host = is_elsewhere && (i == 0 || job.ranks[i - 1].record.host != rank.record.host);
    if (is_next_host) text += fmt::format("  on {}\n", rank.record.host);
    const auto* call = call_shown(rank);
    const std::string name = call == nullptr ? "" : fmt::format("{} #{}", call->operation, call->sequence);
    const bool is_known = !job.is_copy && rank.process.lives;
    text +=
        fmt::format("  {:>4}  {} {} {} {:>6} {:>6} {:>8} {:>8}\n", rank.record.rank, pad_right(state_text(rank), 8), pad_right(name, 21),
                    pad_left(call == nullptr ? "" : age_text(*call, rank.record.now), 9), share_text(waiting_share(rank)),
                    is_known ? share_text(rank.process.cpu_share) : "", is_known ? bytes_text(static_cast<double>(rank.process.memory_bytes)) : "",
                    bytes_text(static_cast<double>(rank.record.bytes)));
  }
  return text + "\n";
}

std::string dump_text(const JobFacts& job) {
  std::string text;
  for (const RankFacts& rank : job.ranks) {
    text += fmt::format("rank {}, the last {} of {} calls\n", rank.record.rank, rank.record.recent.size(), rank.record.calls);
    for (const auto& call : rank.record.recent) {
      text += fmt::format("  {} {} {} {}", pad_left(age_text(call, rank.record.now), 10),
                          pad_right(state_name(call.state) == "none" ? "" : std::string(state_name(call.state)), 8), pad_right(call_text(call), 34),
                          bytes_text(static_cast<double>(call.bytes)));
      if (is_message(call.kind)) {
        if (call.peer >= 0) text += fmt::format(", {} rank {}", call.kind == Operation::send ? "to" : "from", call.peer);
        if (call.tag != 0) text += fmt::format(", tag {}", call.tag);
      }
      if (call.waited_for >= 0) text += fmt::format(", waited for rank {}", call.waited_for);
      if (!call.place.empty()) text += ", " + call.place;
      text += '\n';
    }
  }
  return text;
}

std::string stack_text(const Stack& stack) {
  std::string text;
  if (!stack.python.empty()) text += fmt::format("  what rank {} does, in Python (py-spy)\n", stack.rank);
  for (const std::string& frame : stack.python) text += "    " + frame + "\n";
  if (stack.frames.empty()) return text + "  " + wrap(fmt::format("no stack of rank {}: {}", stack.rank, stack.problem), 4, 2) + "\n";
  text += fmt::format("  what rank {} does ({})\n", stack.rank, stack.tool);
  for (const std::string& frame : stack.frames) text += "    " + frame + "\n";
  return text;
}

std::string status_json(const std::vector<JobFacts>& jobs, const std::vector<std::vector<Stack>>& stacks, bool with_calls) {
  Json all = Json::array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobFacts& job = jobs[i];
    Json json;
    put(json, "job", job.name);
    put(json, "program", job.program);
    put(json, "size", job.size);
    put(json, "began_ns", job.began);
    put(json, "age_ns", job.age_ns);
    put(json, "late", Json::array());
    for (const Delay& delay : delays_of(job.ranks, told_delay_ns)) json["late"].push_back(delay_json(delay));
    if (i < stacks.size()) {
      put(json, "stacks", Json::array());
      for (const Stack& stack : stacks[i]) json["stacks"].push_back(stack_json(stack));
    }
    put(json, "ranks", Json::array());
    for (const RankFacts& rank : job.ranks) json["ranks"].push_back(rank_json(rank, with_calls));
    all.push_back(std::move(json));
  }
  constexpr int indent = 2;
  return all.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace unisono::tools

#include "status/report.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "common/json.h"
#include "common/text.h"
#include "launch/output/sink.h"
#include "launch/view/standstill.h"

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
  const auto [amount, unit] = scaled_bytes(bytes);
  return fmt::format("{:.{}f} {}", amount, unit == "B" || amount >= 100 ? 0 : 1, unit);
}

Json call_json(const recorder::CallSeen& call) {
  Json json;
  put(json, {{"operation", call.operation},
             {"group", call.group},
             {"sequence", call.sequence},
             {"state", state_name(call.state)},
             {"bytes", call.bytes},
             {"dtype", to_string(call.dtype)}});
  if (call.peer >= 0) put(json, "peer", call.peer);
  if (is_message(call.kind)) put(json, "tag", call.tag);
  if (!call.place.empty()) put(json, "place", call.place);
  for (const auto& [name, at] : {std::pair{"queued_ns", call.queued}, {"begun_ns", call.begun}, {"done_ns", call.done}})
    if (at != 0) put(json, name, at);
  if (call.waited_for >= 0) put(json, {{"waited_for", call.waited_for}, {"waited_for_count", call.waited_count}});
  return json;
}

/// Returns what the function makes of each element.
template <class Range, class Make>
Json all_json(const Range& range, const Make& make) {
  Json all = Json::array();
  for (const auto& each : range) all.push_back(make(each));
  return all;
}

Json delay_json(const Delay& delay) {
  Json json;
  put(json, {{"rank", delay.late}, {"waited_ns", delay.for_ns}, {"text", delay.text}, {"advice", delay.advice}, {"call", call_json(delay.call)}});
  if (!delay.circle.empty()) put(json, "circle", delay.circle);
  return json;
}

Json rank_json(const RankFacts& rank, bool with_calls) {
  const recorder::RankSeen& record = rank.record;
  Json json;
  put(json, {{"rank", record.rank},
             {"pid", record.pid},
             {"host", record.host},
             {"state", state_text(rank)},
             {"now_ns", record.now},
             {"calls", record.calls},
             {"bytes", record.bytes},
             {"waited_ns", record.waited},
             {"waiting_share", waiting_share(rank)},
             {"cpu_seconds", rank.process.cpu_seconds},
             {"cpu_share", rank.process.cpu_share},
             {"memory_bytes", rank.process.memory_bytes}});
  if (!record.failure.empty()) put(json, "failure", record.failure);
  if (const auto* call = call_shown(rank)) put(json, "call", call_json(*call));
  if (with_calls) put(json, "recent", all_json(record.recent, call_json));
  return json;
}

Json stack_json(const Stack& stack) {
  Json json;
  put(json, {{"rank", stack.rank}, {"tool", stack.tool}, {"frames", stack.frames}, {"python", stack.python}, {"problem", stack.problem}});
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

constexpr int milliseconds_between = 1000;

}  // namespace

std::string status_text(const JobFacts& job, std::size_t columns) {
  std::set<std::string> hosts;
  for (const RankFacts& rank : job.ranks) hosts.insert(rank.record.host);
  const bool is_elsewhere = std::ranges::any_of(job.ranks, [](const RankFacts& rank) { return !rank.is_here; });
  const std::string where = job.is_copy    ? "have left their records; they were written"
                            : is_elsewhere ? fmt::format("are on {}; it began", counted(hosts.size(), "host"))
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
  if (!stack.python.empty()) text += fmt::format("  rank {} in Python (py-spy)\n", stack.rank);
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
    put(json, {{"job", job.name},
               {"program", job.program},
               {"size", job.size},
               {"began_ns", job.began},
               {"age_ns", job.age_ns},
               {"late", all_json(delays_of(job.ranks, told_delay_ns), delay_json)}});
    if (i < stacks.size()) put(json, "stacks", all_json(stacks[i], stack_json));
    put(json, "ranks", all_json(job.ranks, [&](const RankFacts& rank) { return rank_json(rank, with_calls); }));
    all.push_back(std::move(json));
  }
  constexpr int indent = 2;
  return all.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Each line replaces the former one, so that nothing flickers. The last column stays free: behind a letter in it, terminals erase that letter.
std::string screen_text(const std::vector<JobFacts>& jobs, int terminal) {
  const ScreenSize size = screen_size(terminal);
  const std::size_t columns = size.columns - 1;
  std::string all;
  for (const JobFacts& job : jobs) all += status_text(job, std::min(columns, screen_columns));
  std::vector<std::string> lines;
  std::istringstream stream(all);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (const std::size_t most = size.rows - 1; lines.size() > most) {
    const std::size_t hidden = lines.size() - (most - 1);
    lines.resize(most - 1);
    lines.push_back(fmt::format("  … {} more lines: unisono status --once shows all", hidden));
  }
  std::string text = "\033[H";
  for (const std::string& line : lines) text += launcher::cut_to_width(line, columns) + "\033[K\n";
  return text + "\033[J";
}

void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look) {
  std::cout << "\033[2J";
  while (!jobs.empty()) {
    std::cout << screen_text(jobs, STDOUT_FILENO) << std::flush;
    ::poll(nullptr, 0, milliseconds_between);
    auto next = look();
    count_cpu_since(jobs, next);
    jobs = std::move(next);
  }
}

}  // namespace unisono::tools

#include "hosts/host_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "base/socket.h"
#include "common/child.h"
#include "common/text.h"
#include "launch/view/rank_facts.h"

namespace unisono::tools {
namespace {

void append_to(std::string& list, const std::string& more) {
  if (!list.empty() && !more.empty()) list += ", ";
  list += more;
}

/// Adds "7 waiting, 1 program".
void add_counts(std::map<std::string, long>& counts, const std::string& text) {
  std::istringstream words(text);
  long number = 0;
  for (std::string state; words >> number >> state;) {
    if (state.ends_with(',')) state.pop_back();
    counts[state] += number;
  }
}

using launcher::StdinTarget;

/// So many bytes may be on their way to a host.
constexpr std::size_t most_on_the_way = 64u << 10;

// Everything goes through one pipe; the launchers know the rank.
StdinTarget to_the_pipe(const StdinTarget& target) {
  return {.kind = target.kind == StdinTarget::Kind::none ? StdinTarget::Kind::none : StdinTarget::Kind::all};
}

}  // namespace

using launcher::Topic;

HostOutput::HostOutput(launcher::Console& console, std::size_t hosts, int world_size)
    : console_(&console), world_size_(world_size), unfinished_(hosts), is_restarting_(hosts), states_(hosts) {}

/// The launchers there write to pipes, so a prefix gets its colour here.
void HostOutput::show_line(bool is_error, std::string line) {
  launcher::Sink& sink = is_error ? console_->err() : console_->out();
  const auto end = line.find("] ");
  if (sink.is_terminal() && line.starts_with('[') && end != std::string::npos) {
    const auto begin = std::min(line.find_first_not_of(' ', 1), end);
    const auto rank = parse_number<int>(std::string_view(line).substr(begin, end - begin));
    if (rank) line.replace(0, end + 2, console_->prefix(*rank, world_size_, sink));
  }
  sink.line(line);
}

void HostOutput::take(std::size_t host, bool is_error, std::string_view bytes) {
  std::string& line = unfinished_[host][is_error ? 1 : 0];
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    line += bytes.substr(0, end);
    show_line(is_error, std::move(line));
    line.clear();
    bytes.remove_prefix(end + 1);
  }
  line += bytes;
}

void HostOutput::finish(std::size_t host) {
  for (const bool is_error : {false, true}) {
    std::string& line = unfinished_[host][is_error ? 1 : 0];
    if (!line.empty()) show_line(is_error, std::move(line));
    line.clear();
  }
}

void HostOutput::take_message(std::size_t host, std::string_view line) {
  std::istringstream fields{std::string(line)};
  Message message;
  int topic = 0;
  fields >> message.how >> topic;
  fields.get();
  std::getline(fields, message.text);
  message.topic = static_cast<Topic>(topic);
  if (message.how == "state") {
    states_.take(host, message.text);
    return console_->set_footer(states_.line(base::Clock::now() - begun_, console_->err().columns() - 1));
  }
  switch (message.topic) {
    case Topic::interrupt: return;  // the conductor says it itself
    case Topic::failing:
      if (!std::exchange(has_failed_, true)) show(message);
      return;
    case Topic::logs:
      if (std::exchange(logs_, message.text) != message.text) show(message);
      return;
    case Topic::metrics: return show(message);  // each host has its own
    case Topic::lost: loss_ = loss_.empty() ? message.text : loss_; return;
    case Topic::restart:
      is_restarting_[host] = true;
      if (!std::ranges::all_of(is_restarting_, [](bool restarts) { return restarts; })) return;
      show_held();
      is_restarting_.assign(is_restarting_.size(), false);
      has_failed_ = false;
      return show(message);
    case Topic::other: held_.push_back(std::move(message)); return;
  }
}

void HostOutput::show(const Message& message) {
  if (message.how == "quote") console_->quote(message.text);
  else if (message.how == "shout") console_->shout(message.text);
  else console_->say(message.text);
}

void HostOutput::show_held() {
  for (const Message& message : held_) show(message);
  held_.clear();
}

void HostOutput::show_accounts(bool with_losses) {
  console_->set_footer({});
  show_held();
  if (with_losses && !loss_.empty()) console_->shout(loss_);
}

void HostStates::take(std::size_t host, std::string_view text) {
  Host state;
  state.texts = launcher::StatusTexts::of(text, state.restarts);
  hosts_.at(host) = state;
}

// A launcher sees its own ranks only: the rank that they wait for may wait itself, as its own host says, and tells whom for.
launcher::LateRank HostStates::latest(const std::string& each) const {
  launcher::LateRank latest, latest_of_all;
  for (const Host& host : hosts_) {
    const launcher::LateRank& late = host.texts.late;
    if (late.rank < 0) continue;
    const bool waits = (", " + each + ",").find(fmt::format(", {} waiting,", late.rank)) != std::string::npos;
    if (!waits && late.for_ns > latest.for_ns) latest = late;
    if (late.for_ns > latest_of_all.for_ns) latest_of_all = late;
  }
  return latest.rank >= 0 ? latest : latest_of_all;
}

std::string HostStates::line(std::chrono::nanoseconds elapsed, std::size_t columns) const {
  launcher::StatusTexts all;
  int restarts = 0;
  std::map<std::string, long> counts;
  for (const Host& host : hosts_) {
    append_to(all.each, host.texts.each);
    add_counts(counts, host.texts.counts);
    restarts = std::max(restarts, host.restarts);
  }
  if (all.each.empty()) return {};
  all.late = latest(all.each);
  for (const std::string_view state : launcher::rank_states) {
    if (const auto found = counts.find(std::string(state)); found != counts.end()) append_to(all.counts, fmt::format("{} {}", found->second, state));
  }
  return launcher::status_line_text(all, elapsed, restarts, columns);
}

HostInput::HostInput(StdinTarget target, const std::vector<HostEntry>& hosts) : pump_(to_the_pipe(target)) {
  int first = 0;
  for (const HostEntry& host : hosts) {
    const bool has_rank = target.rank >= first && target.rank < first + host.slots;
    hosts_.push_back({.gets_input = target.kind == StdinTarget::Kind::all || (target.kind == StdinTarget::Kind::one && has_rank)});
    first += host.slots;
  }
}

void HostInput::begin() {
  pump_.begin_attempt();
  input_ = pump_.open(0);
  base::set_non_blocking(input_.get());
}

bool HostInput::may_send() const {
  return std::ranges::all_of(hosts_, [](const Host& host) { return host.on_the_way < most_on_the_way || host.has_ended; });
}

void HostInput::pass(const Send& send) {
  if (!input_ || !may_send()) return;
  std::array<char, most_on_the_way> buffer;
  const auto bytes = read_some(input_.get(), buffer);
  if (!bytes) return;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.has_ended) continue;
    if (bytes->empty()) {
      send(i, FrameKind::input_end, {});
    } else if (host.gets_input) {
      host.on_the_way += bytes->size();
      send(i, FrameKind::input, *bytes);
    }
  }
  if (bytes->empty()) input_.reset();
}

void HostInput::wait_for(launcher::PollSet& set) {
  if (!input_) return;
  pump_.wait_for(set);
  if (may_send()) set.add(input_.get(), POLLIN, [](short) {});
}

void HostInput::note_taken(std::size_t host, std::size_t bytes) { hosts_[host].on_the_way -= std::min(hosts_[host].on_the_way, bytes); }

}  // namespace unisono::tools

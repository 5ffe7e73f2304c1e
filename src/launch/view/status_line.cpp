#include "launch/job_options.h"
#include "launch/view/standstill.h"
#include "launch/view/status_line.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace unisono::launcher {
namespace {

constexpr std::chrono::milliseconds between_looks{1000};

/// Returns "0 waiting, 1 program".
std::string each_rank(const JobSeen& job) {
  std::string text;
  for (const RankFacts& rank : job.ranks) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", rank.record.rank, state_text(rank));
  return text;
}

/// Returns "7 waiting, 1 program".
std::string counts(const JobSeen& job) {
  std::string text;
  for (const std::string_view state : rank_states) {
    const auto number = std::ranges::count_if(job.ranks, [&](const RankFacts& rank) { return state_text(rank) == state; });
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, state);
  }
  return text;
}

LateRank late_rank(const JobSeen& job) {
  const std::vector<Delay> delays = delays_of(job.ranks, told_delay_ns);
  if (delays.empty()) return {};
  const Delay& first = delays.front();
  return {.rank = first.late,
          .for_ns = first.for_ns,
          .text = fmt::format("rank {} is late for {} by {}", first.late, call_text(first.call), duration_text(first.for_ns))};
}

/// Returns the time without fractions, which would change with every look.
std::string elapsed_text(std::chrono::nanoseconds elapsed) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed);
  if (seconds < std::chrono::minutes(1)) return fmt::format("{} s", seconds.count());
  return duration_text(static_cast<std::uint64_t>(std::chrono::nanoseconds(seconds).count()));
}

}  // namespace

bool shows_status_line(const JobOptions& options) {
  return options.shown.status_line && (options.shown.has_conductor() || ::isatty(STDERR_FILENO) == 1);
}

StatusTexts status_texts(const JobSeen& job) { return {.each = each_rank(job), .counts = counts(job), .late = late_rank(job)}; }

std::string StatusTexts::told(int restarts) const {
  return fmt::format("{}\t{}\t{}\t{} {}\t{}", restarts, each, counts, late.rank, late.for_ns, late.text);
}

StatusTexts StatusTexts::of(std::string_view told, int& restarts) {
  StatusTexts texts;
  std::istringstream fields{std::string(told)};
  std::string first, number;
  for (std::string* field : {&first, &texts.each, &texts.counts, &number, &texts.late.text}) std::getline(fields, *field, '\t');
  std::istringstream(first) >> restarts;
  std::istringstream(number) >> texts.late.rank >> texts.late.for_ns;
  if (texts.late.text.empty()) texts.late = {};
  return texts;
}

std::string status_line_text(const StatusTexts& texts, std::chrono::nanoseconds elapsed, int restarts, std::size_t columns) {
  const std::string begin = fmt::format("[unisono] {}{}: ", elapsed_text(elapsed), restarts > 0 ? fmt::format(", restart {}", restarts) : "");
  const std::string late = texts.late.text.empty() ? "" : " | " + texts.late.text;
  const bool is_room = columns_of(begin + texts.each + late.substr(0, late.find(" for "))) <= columns;
  return cut_to_width(begin + (is_room ? texts.each : texts.counts) + late, columns);
}

void StatusLine::wait_for(PollSet& set) const {
  if (next_) set.wake_at(*next_);
  else set.wake_within(PollSet::Milliseconds(0));
}

void StatusLine::tick() {
  if (next_ && !next_->passed()) return;
  next_.emplace(between_looks);
  const JobSeen job = look_();
  const StatusTexts texts = status_texts(job);
  if (console_.has_conductor()) return console_.tell_state(texts.told(job.restarts));
  console_.set_footer(status_line_text(texts, base::Clock::now() - begun_, job.restarts, console_.err().columns() - 1));
}

void StatusLine::hide() {
  if (console_.has_conductor()) console_.tell_state({});
  console_.set_footer({});
  next_.reset();
}

}  // namespace unisono::launcher

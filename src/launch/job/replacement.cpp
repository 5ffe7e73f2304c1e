#include "launch/job/replacement.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launch/process/program.h"

namespace unisono::launcher {

using std::chrono::milliseconds;
using How = RankEnd::How;

namespace {

/// The pause between two looks at what the ranks have written in the store, which wakes nobody here.
constexpr milliseconds look_period{500};
/// Longer than it takes until the launchers of other hosts have said what has become of their ranks.
constexpr milliseconds doubt_time{1500};

}  // namespace

Replacement::Replacement(Parts parts)
    : parts_(std::move(parts)),
      peers_(parts_.job.hosts.make_elastic(parts_.attempt, parts_.restarts_left)),
      places_(parts_.ends.size(), {.restarts = terms().is_late ? 1 : 0}) {}  // all ranks of a late host are newcomers

std::string Replacement::loss(std::size_t index) const {
  const RankEnd& end = parts_.ends[index];
  if (!places_[index].not_started.empty()) return fmt::format("rank {} was not started again ({})", end.rank, places_[index].not_started);
  return fmt::format("rank {} {}", end.rank, end.how == How::exited && end.code == 0 ? "left without finalize" : end.describe());
}

/// A process that was started while the job ran is a member once it has initialized.
bool Replacement::is_member(std::size_t index) const {
  return parts_.processes.is_alive(index) && !parts_.ends.is_left_out(index) && (places_[index].restarts == 0 || !parts_.ends.is_in_no_group(index));
}

bool Replacement::will_restart() const {
  return parts_.ending.is_running() && std::ranges::any_of(places_, [](const RankPlace& place) { return place.restart || place.is_asked; });
}

/// The launcher that decides when too few are left stays while there are members on other hosts.
bool Replacement::goes_on() const {
  if (will_restart()) return true;
  Hosts& hosts = parts_.job.hosts;
  if (!hosts.decides() || !parts_.ending.is_running() || are_too_few_ || is_stopped_) return false;
  if (hosts.first_trouble()) return false;  // the others end their ranks, and say no more of them
  return doubt_ || tally_of_others().members > 0;
}

void Replacement::wait_for(PollSet& set) {
  if (next_look_) set.wake_at(*next_look_);
  if (doubt_ && parts_.job.hosts.decides()) set.wake_at(*doubt_);
  peers_->wait_for(set);
  for (const RankPlace& place : places_) {
    if (place.restart) set.wake_at(*place.restart);
    if (place.patience) set.wake_at(*place.patience);
  }
}

void Replacement::advance() {
  hear();
  end_those_left_out();
  if (!next_look_ || next_look_->passed()) next_look_.emplace(look_period);
  if (parts_.ends.is_judging()) return;  // whether a rank that has ended has failed is known in a moment
  const std::vector<std::size_t> lost = note_lost();
  HostTally all = tally();
  peers_->tell(all);
  const HostTally others = tally_of_others();
  all.members += others.members;
  all.well += others.well;
  const bool is_enough = all.members + all.well >= terms().least_ranks;
  const bool goes_on = (is_enough || parts_.job.hosts.are_several()) && all.well == 0 && !is_stopped_;
  for (const std::size_t i : lost) announce(i, goes_on);
  if (has_too_few(all)) {
    const int last = last_lost_ >= 0 ? last_lost_ : others.last_lost;
    const std::string why = fmt::format("fewer than {} ranks are left", terms().least_ranks);
    parts_.job.hosts.tell({.kind = Trouble::Kind::too_few, .rank = last, .how = why});
    return fail(why, last);
  }
  if (all.well > 0) {  // a job that comes to its end takes nobody in any more
    cancel_restarts();
    parts_.job.hosts.close();
  }
  if (all.members == 0 && parts_.processes.any_alive()) return parts_.ending.ask_to_end(SIGTERM);  // these wait to be taken in
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].restart && places_[i].restart->passed() && !doubt_) replace(i);
  }
}

HostTally Replacement::tally() const {
  HostTally own{.last_lost = last_lost_};
  for (std::size_t i = 0; i < parts_.ends.size(); ++i) {
    if (is_member(i)) ++own.members;
    if (parts_.ends.has_ended_well(i)) ++own.well;
    own.names.push_back(parts_.ends[i].name);
  }
  return own;
}

HostTally Replacement::tally_of_others() const {
  HostTally all;
  for (const auto& [host, tally] : news_.others) {
    all.members += tally.members;
    all.well += tally.well;
    all.last_lost = std::max(all.last_lost, tally.last_lost);
  }
  return all;
}

/// Tells whether the job ends because too few are left, which one launcher decides. The others say a moment later that a newcomer has become a
/// member.
bool Replacement::has_too_few(const HostTally& all) {
  if (all.members + all.well >= terms().least_ranks) {
    doubt_.reset();
    return false;
  }
  if (!parts_.job.hosts.are_several()) return true;
  if (!doubt_) doubt_.emplace(doubt_time);
  return parts_.job.hosts.decides() && doubt_->passed();
}

void Replacement::hear() {
  news_ = peers_->take();
  for (const std::string& name : news_.lost) parts_.store.leave_out(name);
  // The ranks that meet for the first time look there for one that will not come.
  if (news_.first_end) parts_.store.note_first_end(*news_.first_end);
  for (const auto& [rank, number] : news_.granted) take_grant(rank, number);
  for (const auto& [name, number] : news_.ended) {
    for (std::size_t i = 0; i < parts_.ends.size(); ++i) {
      if (parts_.ends[i].name == name) parts_.ends.at(i).order = number;
    }
  }
}

void Replacement::take_grant(int rank, int number) {
  const auto index = static_cast<std::size_t>(rank - terms().first_rank);
  RankPlace& place = places_[index];
  if (!std::exchange(place.is_asked, false)) {
    if (number > 0) peers_->give_back_restart();
  } else if (number > 0) {
    const milliseconds pause = back_off(++place.restarts);
    place.restart.emplace(pause);
    parts_.job.console.say(fmt::format("{}; another process takes its place in {} s (restart {} of {})", loss(index), pause.count() / 1000, number,
                                       peers_->most_restarts()),
                           Topic::failing);
  } else {
    announce(index, false);
  }
}

/// Returns the ranks that have been lost since the last call.
std::vector<std::size_t> Replacement::note_lost() {
  std::vector<std::size_t> lost;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    RankPlace& place = places_[i];
    RankEnd& end = parts_.ends.at(i);
    if (end.how == How::running || parts_.ends.has_ended_well(i)) continue;
    if (place.is_lost) {
      // The others may say that they have survived a rank only after they have lost the next one. So a loss counts as survived from a later look on.
      if (parts_.ends.is_left_out(i)) end.is_survived = true;
      continue;
    }
    place.is_lost = true;
    last_lost_ = end.rank;
    place.patience.reset();
    end.is_survived = place.restarts > 0 && parts_.ends.is_in_no_group(i);  // it had no part in the job so far
    parts_.lose(i);
    lost.push_back(i);
  }
  parts_.ends.failure().take();  // what a lost rank says last replaces no earlier failure
  return lost;
}

void Replacement::announce(std::size_t index, bool is_replaced) {
  if (!is_replaced) return parts_.job.console.say(loss(index), Topic::failing);
  places_[index].is_asked = true;
  peers_->ask_restart(parts_.ends[index].rank);
  hear();
}

/// Ends the processes that the others have left out, because they did not answer: nobody waits for them any more.
void Replacement::end_those_left_out() {
  parts_.ends.observe();  // most of them are dead
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!parts_.processes.is_alive(i) || !parts_.ends.is_left_out(i)) continue;
    RankPlace& place = places_[i];
    const milliseconds grace = parts_.job.options.grace;
    if (!place.patience) {
      parts_.job.console.say(fmt::format("the others go on without rank {} (pid {}), which is ended", parts_.ends[i].rank, parts_.ends[i].pid),
                             Topic::failing);
      parts_.processes.ask_to_end(i, SIGTERM);
      place.patience.emplace(grace);
    } else if (place.patience->passed()) {
      parts_.processes.kill(i);
      place.patience.emplace(grace + look_period);
    }
  }
}

/// Starts another process in the place of a lost one. Where that fails, the place stays as it is until the next restart.
void Replacement::replace(std::size_t index) {
  RankPlace& place = places_[index];
  place.restart.reset();
  try {
    parts_.start(index, fmt::format("{}.{}", parts_.ends[index].rank, place.restarts), place.restarts);
  } catch (const StartFailed& failed) {  // the others need not end with it
    place.not_started = failed.message();
    return announce(index, true);
  }
  place.not_started.clear();
  place.is_lost = false;
}

/// Gives up the restarts that were announced. Returns how many.
int Replacement::cancel_restarts() {
  int cancelled = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    RankPlace& place = places_[i];
    if (std::exchange(place.is_asked, false)) announce(i, false);
    if (!place.restart) continue;
    place.restart.reset();
    ++cancelled;
    peers_->give_back_restart();
  }
  return cancelled;
}

void Replacement::stop() {
  is_stopped_ = true;
  cancel_restarts();
}

/// Too few ranks are left, or a host that the job needs is lost: the attempt ends as if every failure ended it.
void Replacement::fail(const std::string& why, int rank) {
  if (!parts_.ending.is_running()) return;
  are_too_few_ = true;
  next_look_.reset();
  doubt_.reset();
  // On several hosts others may give some back as well, which decides in the end.
  const int restarts_left = peers_->most_restarts() - news_.restarts + cancel_restarts();
  const bool is_own = rank >= terms().first_rank && rank < terms().first_rank + parts_.job.options.ranks;
  parts_.ends.failure().replace(why, is_own ? std::optional(rank) : std::nullopt);
  if (!parts_.processes.any_alive()) return;
  if (restarts_left <= 0 || terms().is_open) return parts_.ending.leave_alone(false);
  parts_.job.console.say(why + "; all are ended", Topic::failing);
  parts_.ending.ask_to_end(SIGTERM);
}

std::optional<std::size_t> Replacement::finish() {
  peers_->finish();
  hear();
  for (std::size_t i = 0; i < parts_.ends.size(); ++i) parts_.ends.at(i).is_well = parts_.ends.has_ended_well(i);
  // On several hosts what has ended here says nothing of the job.
  if (parts_.job.hosts.are_several() && !are_too_few_) return std::nullopt;
  return first_cause_of_elastic(parts_.ends.all(), terms().least_ranks, are_too_few_);
}

}  // namespace unisono::launcher

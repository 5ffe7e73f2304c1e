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

void LossPolicy::advance() {
  if (!processes_.any_alive() || !ends_.failure().take()) return;
  if (restarts_left_ > 0) ending_.ask_to_end(SIGTERM);
  else if (ends_.are_controlled()) ending_.go_on();
  else ending_.leave_alone(true);
}

void LossPolicy::note_failure(const RankEnd& end) {
  if (end.ended_by_launcher || std::exchange(is_told_, true)) return;
  hosts_.tell({.kind = Trouble::Kind::failure, .rank = end.rank, .how = how_of(end)});
}

Replacement::Replacement(const JobParts& job, int attempt, int restarts_left, RankStore& store, RankStarter& starter, Ending& ending)
    : LossPolicy(job.hosts, starter.processes(), starter.ends(), ending, restarts_left),
      job_(job),
      store_(store),
      starter_(starter),
      peers_(job.hosts.make_elastic(attempt, restarts_left)),
      places_(ends_.size(), {.restarts = terms().is_late ? 1 : 0}) {}  // all ranks of a late host are newcomers

std::string Replacement::loss(std::size_t index) const {
  const RankEnd& end = ends_[index];
  if (!places_[index].not_started.empty()) return fmt::format("rank {} was not started again ({})", end.rank, places_[index].not_started);
  return fmt::format("rank {} {}", end.rank, end.how == How::exited && end.code == 0 ? "left without finalize" : end.describe());
}

/// A process that was started while the job ran is a member once it has initialized.
bool Replacement::is_member(std::size_t index) const {
  return processes_.is_alive(index) && !ends_.is_left_out(index) && (places_[index].restarts == 0 || !ends_.is_in_no_group(index));
}

bool Replacement::will_restart() const {
  return ending_.is_running() && std::ranges::any_of(places_, [](const RankPlace& place) { return place.restart || place.is_asked; });
}

/// The launcher that decides when too few are left stays while there are members on other hosts.
bool Replacement::goes_on() const {
  if (will_restart()) return true;
  if (!hosts_.decides() || !ending_.is_running() || are_too_few_ || is_stopped_) return false;
  if (hosts_.first_trouble()) return false;  // the others end their ranks, and say no more of them
  return doubt_ || tally_of_others().members > 0;
}

void Replacement::wait_for(PollSet& set) {
  if (next_look_) set.wake_at(*next_look_);
  if (doubt_ && hosts_.decides()) set.wake_at(*doubt_);
  peers_->wait_for(set);
  for (const RankPlace& place : places_) {
    if (place.restart) set.wake_at(*place.restart);
    if (place.patience) set.wake_at(*place.patience);
  }
}

void Replacement::advance() {
  take_news();
  end_those_left_out();
  if (!next_look_ || next_look_->passed()) next_look_.emplace(look_period);
  if (ends_.is_judging()) return;  // whether a rank that has ended has failed is known in a moment
  const std::vector<std::size_t> lost = note_lost();
  HostTally all = tally();
  peers_->tell(all);
  const HostTally others = tally_of_others();
  all.members += others.members;
  all.well += others.well;
  const bool is_enough = all.members + all.well >= terms().least_ranks;
  const bool goes_on = (is_enough || hosts_.are_several()) && all.well == 0 && !is_stopped_;
  for (const std::size_t i : lost) announce(i, goes_on);
  if (has_too_few(all)) {
    const int last = last_lost_ >= 0 ? last_lost_ : others.last_lost;
    const std::string why = fmt::format("fewer than {} ranks are left", terms().least_ranks);
    hosts_.tell({.kind = Trouble::Kind::too_few, .rank = last, .how = why});
    return fail(why, last);
  }
  if (all.well > 0) {  // a job that comes to its end takes nobody in any more
    cancel_restarts();
    hosts_.close();
  }
  if (all.members == 0 && processes_.any_alive()) return ending_.ask_to_end(SIGTERM);  // these wait to be taken in
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].restart && places_[i].restart->passed() && !doubt_) replace(i);
  }
}

HostTally Replacement::tally() const {
  HostTally own{.last_lost = last_lost_};
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (is_member(i)) ++own.members;
    if (ends_.has_ended_well(i)) ++own.well;
    own.names.push_back(ends_[i].name);
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
  if (!hosts_.are_several()) return true;
  if (!doubt_) doubt_.emplace(doubt_time);
  return hosts_.decides() && doubt_->passed();
}

void Replacement::take_news() {
  news_ = peers_->take();
  for (const std::string& name : news_.lost) store_.leave_out(name);
  // The ranks that meet for the first time look there for one that will not come.
  if (news_.first_end) store_.note_first_end(*news_.first_end);
  for (const auto& [rank, number] : news_.granted) take_grant(rank, number);
  for (const auto& [name, number] : news_.ended) {
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i].name == name) ends_.at(i).order = number;
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
    job_.console.say(fmt::format("{}; another process takes its place in {} s (restart {} of {})", loss(index), pause.count() / 1000, number,
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
    RankEnd& end = ends_.at(i);
    if (end.how == How::running || ends_.has_ended_well(i)) continue;
    if (place.is_lost) {
      // The others may say that they have survived a rank only after they have lost the next one. So a loss counts as survived from a later look on.
      if (ends_.is_left_out(i)) end.is_survived = true;
      continue;
    }
    place.is_lost = true;
    last_lost_ = end.rank;
    place.patience.reset();
    end.is_survived = place.restarts > 0 && ends_.is_in_no_group(i);  // it had no part in the job so far
    starter_.lose(i);
    lost.push_back(i);
  }
  ends_.failure().take();  // what a lost rank says last replaces no earlier failure
  return lost;
}

void Replacement::announce(std::size_t index, bool is_replaced) {
  if (!is_replaced) return job_.console.say(loss(index), Topic::failing);
  places_[index].is_asked = true;
  peers_->ask_restart(ends_[index].rank);
  take_news();
}

/// Ends the processes that the others have left out, because they did not answer: nobody waits for them any more.
void Replacement::end_those_left_out() {
  ends_.observe();  // most of them are dead
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!processes_.is_alive(i) || !ends_.is_left_out(i)) continue;
    RankPlace& place = places_[i];
    const milliseconds grace = job_.options.grace;
    if (!place.patience) {
      job_.console.say(fmt::format("the others go on without rank {} (pid {}), which is ended", ends_[i].rank, ends_[i].pid), Topic::failing);
      processes_.ask_to_end(i, SIGTERM);
      place.patience.emplace(grace);
    } else if (place.patience->passed()) {
      processes_.kill(i);
      place.patience.emplace(grace + look_period);
    }
  }
}

/// Starts another process in the place of a lost one. Where that fails, the place stays as it is until the next restart.
void Replacement::replace(std::size_t index) {
  RankPlace& place = places_[index];
  place.restart.reset();
  try {
    starter_.start_newcomer(index, fmt::format("{}.{}", ends_[index].rank, place.restarts), place.restarts);
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
  if (!ending_.is_running()) return;
  are_too_few_ = true;
  next_look_.reset();
  doubt_.reset();
  // On several hosts others may give some back as well, which decides in the end.
  const int restarts_left = peers_->most_restarts() - news_.restarts + cancel_restarts();
  const bool is_own = rank >= terms().first_rank && rank < terms().first_rank + job_.options.ranks;
  ends_.failure().replace(why, is_own ? std::optional(rank) : std::nullopt);
  if (!processes_.any_alive()) return;
  if (restarts_left <= 0 || terms().is_open) return ending_.leave_alone(false);
  job_.console.say(why + "; all are ended", Topic::failing);
  ending_.ask_to_end(SIGTERM);
}

std::optional<std::size_t> Replacement::finish() {
  peers_->finish();
  take_news();
  for (std::size_t i = 0; i < ends_.size(); ++i) ends_.at(i).is_well = ends_.has_ended_well(i);
  // On several hosts what has ended here says nothing of the job.
  if (hosts_.are_several() && !are_too_few_) return std::nullopt;
  return first_cause_of_elastic(ends_.all(), terms().least_ranks, are_too_few_);
}

}  // namespace unisono::launcher

// A job that goes on while enough ranks live: `-n MIN:MAX`. A rank that is lost is replaced as long as restarts are left; the members take the new
// process in when they like (unisono::grow_group).
//
//   place: lives --process ends--> lost --pause--> another process lives in it, which is no member until it has initialized
//
// Where fewer than MIN members live or have ended well, the attempt fails as any other does.
#include <sys/socket.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/host.h"
#include "launch/job/attempt.h"
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

std::string Attempt::loss(std::size_t index) const {
  const RankEnd& end = ends_[index];
  if (!places_[index].not_started.empty()) return fmt::format("rank {} was not started again ({})", end.rank, places_[index].not_started);
  return fmt::format("rank {} {}", end.rank, end.how == How::exited && end.code == 0 ? "left without finalize" : end.describe());
}

/// A process that was started while the job ran is a member once it has initialized.
bool Attempt::is_member(std::size_t index) {
  return is_alive(index) && !is_left_out(index) && (places_[index].restarts == 0 || !is_in_no_group(status_of(ends_[index].rank)));
}

bool Attempt::has_ended_well(std::size_t index) {
  const RankEnd& end = ends_[index];
  if (end.how != How::exited || end.failed() || is_left_out(index)) return false;
  return !has_not_finalized(end.status) && !end.status.starts_with("poisoned") && !end.status.starts_with("mismatch");
}

bool Attempt::restart_is_due() const {
  return phase_ == Phase::running && std::ranges::any_of(places_, [](const RankPlace& place) { return place.restart || place.is_asked; });
}

/// The launcher of host 0 stays while there are members on other hosts, because it decides when too few are left.
bool Attempt::others_go_on() const {
  if (!elastic_hosts_ || !decides() || phase_ != Phase::running || are_too_few_ || interrupted_by_) return false;
  if (parts_.nodes->first_trouble()) return false;  // the others end their ranks, and say no more of them
  return doubt_ || tally_of_others().members > 0;
}

void Attempt::advance_elastic() {
  hear_elastic_hosts();
  end_those_left_out();
  if (!next_look_ || next_look_->passed()) next_look_.emplace(look_period);
  if (judgement_) return;  // whether a rank that has ended has failed is known in a moment
  const std::vector<std::size_t> lost = note_lost();
  HostTally all = tally();
  if (elastic_hosts_) elastic_hosts_->tell(all);
  const HostTally others = tally_of_others();
  all.members += others.members;
  all.well += others.well;
  const bool is_enough = all.members + all.well >= parts_.least_ranks;
  const bool goes_on = (is_enough || !decides() || elastic_hosts_) && all.well == 0 && !interrupted_by_;
  for (const std::size_t i : lost) announce(i, goes_on);
  if (has_too_few(all)) {
    const int last = last_lost_ >= 0 ? last_lost_ : others.last_lost;
    const std::string why = fmt::format("fewer than {} ranks are left", parts_.least_ranks);
    if (parts_.nodes != nullptr) parts_.nodes->tell({.kind = Trouble::Kind::too_few, .rank = last, .how = why});
    return fail_elastic(why, last);
  }
  if (all.well > 0) {  // a job that comes to its end takes nobody in any more
    cancel_restarts();
    if (parts_.nodes != nullptr) parts_.nodes->close();
  }
  if (all.members == 0 && any_alive()) return ask_to_end(SIGTERM);  // these wait to be taken in
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].restart && places_[i].restart->passed() && !doubt_) replace(i);
  }
}

HostTally Attempt::tally() {
  HostTally own{.last_lost = last_lost_};
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (is_member(i)) ++own.members;
    if (has_ended_well(i)) ++own.well;
    own.names.push_back(ends_[i].name);
  }
  return own;
}

HostTally Attempt::tally_of_others() const {
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
bool Attempt::has_too_few(const HostTally& all) {
  if (all.members + all.well >= parts_.least_ranks) {
    doubt_.reset();
    return false;
  }
  if (!elastic_hosts_) return true;
  if (!doubt_) doubt_.emplace(doubt_time);
  return decides() && doubt_->passed();
}

void Attempt::hear_elastic_hosts() {
  if (!elastic_hosts_) return;
  news_ = elastic_hosts_->take();
  for (const std::string& name : news_.lost) store_->set("unisono/lost/" + name, "1");
  // The ranks that meet for the first time look there for one that will not come.
  if (news_.first_end && !store_->peek("unisono/exit/first")) store_->set("unisono/exit/first", *news_.first_end);
  for (const auto& [rank, number] : news_.granted) hear_grant(rank, number);
  for (const auto& [name, number] : news_.ended) {
    const auto end = std::ranges::find(ends_, name, &RankEnd::name);
    if (end != ends_.end()) end->order = number;
  }
}

void Attempt::hear_grant(int rank, int number) {
  const auto index = static_cast<std::size_t>(rank - first_rank_);
  if (!std::exchange(places_[index].is_asked, false)) {
    if (number > 0) elastic_hosts_->give_back_restart();
  } else if (number > 0) {
    announce_replacement(index, number, parts_.nodes->max_restarts() - number_);
  } else {
    announce(index, false);
  }
}

/// Returns the ranks that have been lost since the last call.
std::vector<std::size_t> Attempt::note_lost() {
  std::vector<std::size_t> lost;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    RankPlace& place = places_[i];
    RankEnd& end = ends_[i];
    if (end.how == How::running || has_ended_well(i)) continue;
    if (place.is_lost) {
      // The others may say that they have survived a rank only after they have lost the next one. So a loss counts as survived from a later look on.
      if (is_left_out(i)) end.is_survived = true;
      continue;
    }
    place.is_lost = true;
    last_lost_ = end.rank;
    place.patience.reset();
    end.is_survived = place.restarts > 0 && is_in_no_group(status_of(end.rank));  // it had no part in the job so far
    keep_record(i);
    ::kill(-children_[i].pid, SIGKILL);  // what it has left running would be in the way of the next one
    lost.push_back(i);
  }
  failure_is_new_ = false;
  return lost;
}

/// Says that a rank is lost, and has it replaced.
void Attempt::announce(std::size_t index, bool is_replaced) {
  if (is_replaced && elastic_hosts_) {  // which all hosts count together
    places_[index].is_asked = true;
    return elastic_hosts_->ask_restart(ends_[index].rank);
  }
  if (!is_replaced || restarts_left_ == 0) return parts_.console.say(loss(index), Topic::failing);
  --restarts_left_;
  ++replacements_;
  announce_replacement(index, replacements_, replacements_ + restarts_left_);
}

void Attempt::announce_replacement(std::size_t index, int number, int all) {
  RankPlace& place = places_[index];
  const milliseconds pause = back_off(++place.restarts);
  place.restart.emplace(pause);
  parts_.console.say(fmt::format("{}; another process takes its place in {} s (restart {} of {})", loss(index), pause.count() / 1000, number, all),
                     Topic::failing);
}

/// Ends the processes that the others have left out, because they did not answer: nobody waits for them any more.
void Attempt::end_those_left_out() {
  observe_ends();  // most of them are dead
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (!is_alive(i) || !is_left_out(i)) continue;
    RankPlace& place = places_[i];
    if (!place.patience) {
      parts_.console.say(fmt::format("the others go on without rank {} (pid {}), which is ended", ends_[i].rank, ends_[i].pid), Topic::failing);
      ask_rank_to_end(i, SIGTERM);
      place.patience.emplace(parts_.options.grace);
    } else if (place.patience->passed()) {
      ::kill(-children_[i].pid, SIGKILL);
      place.patience.emplace(parts_.options.grace + look_period);
    }
  }
}

/// Starts another process in the place of a lost one. Where that fails, the place stays as it is until the next restart.
void Attempt::replace(std::size_t index) {
  RankPlace& place = places_[index];
  place.restart.reset();
  Child dead = std::exchange(children_[index], Child());
  const RankEnd end = ends_[index];
  const auto record = records_[index];
  ends_[index] = RankEnd{.rank = end.rank, .name = fmt::format("{}.{}", end.rank, place.restarts), .host = base::host_name()};
  output_.close(static_cast<int>(index));
  try {
    start_newcomer(index);
  } catch (const StartFailed& failed) {  // the others need not end with it
    children_[index] = std::move(dead);
    ends_[index] = end;
    records_[index] = record;
    place.not_started = failed.message();
    return announce(index, true);
  }
  place.not_started.clear();
  place.is_lost = false;
  replaced_.push_back({.pid = dead.pid});
}

void Attempt::start_newcomer(std::size_t index) {
  const int rank = ends_[index].rank;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw StartFailed(fmt::format("cannot make a socket for rank {}: {}", rank, error_text(errno)), 1);
  }
  base::FileDescriptor server_end(ends[0]), store_end(ends[1]);
  start_rank(static_cast<int>(index), std::move(store_end));
  store_->set("unisono/status/" + std::to_string(rank), "");  // which the new process may write from the next line on
  store_->adopt(std::move(server_end));
}

/// Gives up the restarts that were announced. Returns how many.
int Attempt::cancel_restarts() {
  int cancelled = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    RankPlace& place = places_[i];
    if (std::exchange(place.is_asked, false)) announce(i, false);
    if (!place.restart) continue;
    place.restart.reset();
    ++cancelled;
    if (elastic_hosts_) {
      elastic_hosts_->give_back_restart();
    } else {
      ++restarts_left_;
      --replacements_;
    }
  }
  return cancelled;
}

/// Too few ranks are left, or a host that the job needs is lost: the attempt ends as if every failure ended it.
void Attempt::fail_elastic(const std::string& why, int last_lost) {
  if (phase_ != Phase::running) return;
  are_too_few_ = true;
  next_look_.reset();
  doubt_.reset();
  const int cancelled = cancel_restarts();
  // On several hosts others may give some back as well, which decides in the end.
  if (elastic_hosts_) restarts_left_ = parts_.nodes->max_restarts() - number_ - news_.restarts + cancelled;
  restart_follows_ = restarts_left_ > 0 && (parts_.nodes == nullptr || !parts_.nodes->is_open());
  new_failure_ = why;
  failed_rank_.reset();
  if (last_lost >= first_rank_ && last_lost < first_rank_ + parts_.options.ranks) failed_rank_ = last_lost;
  if (!any_alive()) return;
  if (!restart_follows_) return leave_alone();
  parts_.console.say(new_failure_ + "; all are ended", Topic::failing);
  ask_to_end(SIGTERM);
}

}  // namespace unisono::launcher

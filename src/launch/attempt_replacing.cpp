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
#include "launch/attempt.h"
#include "launch/program.h"

namespace unisono::launcher {

using std::chrono::milliseconds;
using How = RankEnd::How;

namespace {

/// The pause between two looks at what the ranks have written in the store, which wakes nobody here.
constexpr milliseconds look_period{500};

}  // namespace

/// A process that was started while the job ran is a member once it has initialized.
bool Attempt::is_member(std::size_t index) {
  return is_alive(index) && !is_left_out(index) && (places_[index].restarts == 0 || !is_in_no_group(status_of(ends_[index].rank)));
}

bool Attempt::has_ended_well(std::size_t index) {
  const RankEnd& end = ends_[index];
  if (end.how != How::exited || end.failed() || is_left_out(index)) return false;
  return end.status != "initialized" && !end.status.starts_with("poisoned") && !end.status.starts_with("mismatch");
}

bool Attempt::restart_is_due() const {
  return phase_ == Phase::running && std::ranges::any_of(places_, [](const RankPlace& place) { return place.restart.has_value(); });
}

void Attempt::advance_elastic() {
  end_those_left_out();
  if (!next_look_ || next_look_->passed()) next_look_.emplace(look_period);
  if (judgement_) return;  // whether a rank that has ended has failed is known in a moment
  const std::vector<std::size_t> lost = note_lost();
  int members = 0, well = 0;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (is_member(i)) ++members;
    if (has_ended_well(i)) ++well;
  }
  const bool is_enough = members + well >= parts_.options.min_ranks;
  for (const std::size_t i : lost) announce(i, is_enough && well == 0);
  if (!is_enough) return fail_elastic();
  if (well > 0) cancel_restarts();                              // a job that comes to its end takes nobody in any more
  if (members == 0 && any_alive()) return ask_to_end(SIGTERM);  // these wait to be taken in
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].restart && places_[i].restart->passed()) replace(i);
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
  RankPlace& place = places_[index];
  const RankEnd& end = ends_[index];
  std::string text = fmt::format("rank {} {}", end.rank, end.how == How::exited && end.code == 0 ? "left without finalize" : end.describe());
  if (is_replaced && restarts_left_ > 0) {
    --restarts_left_;
    ++replacements_;
    const milliseconds pause = back_off(++place.restarts);
    place.restart.emplace(pause);
    text += fmt::format("; another process takes its place in {} s (restart {} of {})", pause.count() / 1000, replacements_,
                        replacements_ + restarts_left_);
  }
  parts_.console.say(text, Topic::failing);
}

/// Ends the processes that the others have left out, because they did not answer: nobody waits for them any more.
void Attempt::end_those_left_out() {
  observe_ends();  // most of them are dead
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (!is_alive(i) || !is_left_out(i)) continue;
    RankPlace& place = places_[i];
    if (!place.patience) {
      parts_.console.say(fmt::format("the others go on without rank {} (pid {}), which is ended", ends_[i].rank, ends_[i].pid), Topic::failing);
      ::kill(-children_[i].pid, SIGTERM);
      ::kill(-children_[i].pid, SIGCONT);  // a stopped process handles SIGTERM only after SIGCONT
      place.patience.emplace(parts_.options.grace);
    } else if (place.patience->passed()) {
      ::kill(-children_[i].pid, SIGKILL);
      place.patience.emplace(parts_.options.grace + look_period);
    }
  }
}

/// Starts another process in the place of a lost one.
void Attempt::replace(std::size_t index) {
  RankPlace& place = places_[index];
  place.restart.reset();
  place.is_lost = false;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw StartFailed(fmt::format("cannot make a socket for rank {}: {}", ends_[index].rank, error_text(errno)), 1);
  }
  base::FileDescriptor server_end(ends[0]), store_end(ends[1]);
  replaced_.push_back({.pid = children_[index].pid});
  children_[index] = Child();
  const int rank = ends_[index].rank;
  store_->set("unisono/status/" + std::to_string(rank), "");
  ends_[index] = RankEnd{.rank = rank, .name = fmt::format("{}.{}", rank, place.restarts), .host = base::host_name()};
  output_.close(static_cast<int>(index));
  start_rank(static_cast<int>(index), std::move(store_end));
  store_->adopt(std::move(server_end));
}

/// Gives up the restarts that were announced.
void Attempt::cancel_restarts() {
  for (RankPlace& place : places_) {
    if (!place.restart) continue;
    place.restart.reset();
    ++restarts_left_;
    --replacements_;
  }
}

/// Too few ranks are left: the attempt ends as if every failure ended it.
void Attempt::fail_elastic() {
  are_too_few_ = true;
  next_look_.reset();
  cancel_restarts();
  restart_follows_ = restarts_left_ > 0;
  const RankEnd* last = nullptr;
  for (const RankEnd& end : ends_) {
    if (end.how != How::running && (last == nullptr || end.order > last->order)) last = &end;
  }
  new_failure_ = fmt::format("fewer than {} ranks are left", parts_.options.min_ranks);
  failed_rank_ = last != nullptr ? std::optional(last->rank) : std::nullopt;
  if (!any_alive()) return;
  if (!restart_follows_) return leave_alone();
  parts_.console.say(new_failure_ + "; all are ended", Topic::failing);
  ask_to_end(SIGTERM);
}

/// A job that goes on without lost ranks has failed where too few have ended well.
std::optional<std::size_t> Attempt::cause_of_elastic() {
  int well = 0;
  for (std::size_t i = 0; i < ends_.size(); ++i) well += has_ended_well(i) ? 1 : 0;
  if (!are_too_few_ && well >= parts_.options.min_ranks) return std::nullopt;
  if (const auto cause = first_cause(ends_)) return cause;
  for (RankEnd& end : ends_) end.is_survived = false;
  return first_cause(ends_);
}

}  // namespace unisono::launcher

#include "launch/job/attempt.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "launch/job/replacement.h"
#include "launch/process/environment_block.h"

namespace unisono::launcher {

Attempt::Attempt(const JobParts& parts, int number, int restarts_left)
    : parts_(parts),
      number_(number),
      restarts_left_(restarts_left),
      output_(parts.console, {.first_rank = parts.terms().first_rank,
                              .ranks = parts.options.ranks,
                              .world_size = parts.terms().world_size,
                              .log_folder = parts.log_folder,
                              .attempt = number,
                              .terminals = parts.options.shown.terminals == Terminals::as_launcher}),
      store_(parts.job_id, number, parts.terms().first_rank, parts.options.ranks),
      starter_(parts, number, output_, store_, processes_, ends_),
      processes_(parts.watchdog, parts.options.ranks),
      ends_(parts.options, parts.terms(), processes_, store_),
      ending_(parts, processes_, ends_) {
  const auto ended = [this](std::size_t index) {
    starter_.note_ended(index);
    losses_->note_end(ends_[index]);
  };
  ends_.on_end(ended, [this](const RankEnd& end) { losses_->note_failure(end); });
}

AttemptEnd Attempt::run() {
  start();
  while (!ending_.is_over()) {
    round();
    advance();
  }
  finish();
  return std::move(end_);
}

void Attempt::start() {
  starter_.start_all();
  store_.serve(parts_.hosts, number_, parts_.placement.text);
  if (parts_.options.started) {
    EnvironmentBlock environment(parts_.options.environment);
    environment.set("UNISONO_JOB_ID", parts_.job_id);
    environment.set("UNISONO_ATTEMPT", number_);
    std::vector<pid_t> pids;
    for (std::size_t i = 0; i < processes_.size(); ++i) pids.push_back(processes_.pid(i));
    parts_.options.started(environment.as_environment(), std::move(pids));
  }
  if (parts_.terms().least_ranks > 0) losses_ = std::make_unique<Replacement>(parts_, number_, restarts_left_, store_, starter_, ending_);
  else losses_ = std::make_unique<LossPolicy>(parts_.hosts, processes_, ends_, ending_, restarts_left_);
}

void Attempt::round() {
  PollSet set;
  parts_.console.wait_for(set);
  output_.wait_for(set);
  parts_.stdin_pump.wait_for(set);
  if (parts_.status_line != nullptr) parts_.status_line->wait_for(set);
  starter_.wait_for(set);
  ends_.wait_for(set);
  if (parts_.signals != nullptr) {
    set.add(parts_.signals->fd(), POLLIN, [this](short) {
      while (const auto signal = parts_.signals->next()) handle_signal(*signal);
    });
  }
  parts_.hosts.wait_for(set, [this] { respond_to_other_hosts(); });
  bool death = false;
  processes_.wait_for(set, [&death] { death = true; });
  ending_.wait_for(set);
  losses_->wait_for(set);
  set.wait();
  if (death) ends_.observe();
  if (parts_.stdin_pump.take_typed()) {
    output_.settle_live_lines();
    parts_.console.note_typed();
  }
  ends_.tick();
  output_.tick();
  if (parts_.status_line != nullptr) parts_.status_line->tick();
  parts_.console.flush();
}

void Attempt::advance() {
  ends_.judge();
  if (ending_.is_running()) losses_->advance();
  if (processes_.any_alive()) return ending_.advance();
  if (!ends_.is_judging() && !losses_->goes_on()) ending_.advance_leftovers();
}

void Attempt::finish() {
  output_.drain();
  if (parts_.status_line != nullptr) parts_.status_line->hide();
  ends_.read_statuses();
  end_.cause = losses_->finish();
  for (std::size_t i = 0; end_.cause && i < ends_.size(); ++i) starter_.keep_record(i);  // of the ranks that could not do so themselves
  store_.close();
  end_.replacements = losses_->replacements();
  end_.ends = ends_.all();
  end_.records = starter_.read_records();
}

/// A failure or interrupt on another host ends our ranks in the same steps.
void Attempt::respond_to_other_hosts() {
  Hosts& hosts = parts_.hosts;
  for (const std::string& text : hosts.take_news()) parts_.console.say(text, Topic::failing);
  const auto trouble = hosts.take_trouble();
  if (!trouble || (!processes_.any_alive() && !losses_->will_restart())) return;
  if (trouble->kind == Trouble::Kind::interrupt) {
    parts_.console.say(signal_name(trouble->signal) + " has ended the launcher at " + hosts.name_of(trouble->node), Topic::interrupt);
    if (parts_.signals != nullptr) parts_.signals->note_request(trouble->signal);
    return begin_ending(trouble->signal);
  }
  if (trouble->kind == Trouble::Kind::displaced) {  // the other job uses what this one's ranks write
    parts_.console.say(trouble->how + "; all are ended", Topic::failing);
    losses_->stop();
    return ending_.ask_to_end(SIGTERM);
  }
  if (trouble->kind == Trouble::Kind::too_few) return losses_->fail(trouble->how, trouble->rank);
  const bool lost = trouble->kind == Trouble::Kind::lost;
  // If this host is the one that the others have lost, its ranks live so far.
  const bool is_own = trouble->node == hosts.terms().node;
  if (!is_own) store_.note_end(std::to_string(trouble->rank), lost ? "lost 0" : trouble->how);
  losses_->fail(lost ? fmt::format("the launcher at {} is lost ({})", hosts.name_of(trouble->node), trouble->how)
                     : fmt::format("rank {} has failed at {}", trouble->rank, hosts.name_of(trouble->node)),
                -1);
}

void Attempt::handle_signal(int signal) {
  if (signal == SIGWINCH) {
    output_.resize();
    parts_.console.resize();
    if (parts_.status_line != nullptr) parts_.status_line->look_soon();
  }
  if (std::ranges::find(parts_.options.forwarded_signals, signal) != parts_.options.forwarded_signals.end()) {
    processes_.signal_ranks(signal);  // its helpers know nothing of it, and would end
  } else if (signal == SIGCONT || signal == SIGWINCH) {
    processes_.signal_groups(signal);
  } else if (signal == SIGTSTP) {
    processes_.signal_groups(SIGTSTP);
    if (parts_.status_line != nullptr) parts_.status_line->hide();
    parts_.console.flush();
    ::kill(::getpid(), SIGSTOP);  // SIGCONT is read from the descriptor afterwards
  } else {
    interrupt(signal);
  }
}

void Attempt::interrupt(int signal) {
  if (end_.interrupted_by) {
    if (!ending_.hurry()) return;
    parts_.console.say(signal_name(signal) + " again: killing all ranks", Topic::interrupt);
    return ending_.kill_all();
  }
  ends_.observe(signal);
  end_.interrupted_first = !ends_.have_failed();
  end_.leaves = parts_.hosts.is_left_by(signal);
  if (end_.leaves) {
    parts_.console.say("SIGTERM: this host leaves the job; its ranks are told to end, and a second one kills them", Topic::interrupt);
    return begin_ending(signal);
  }
  parts_.hosts.tell({.kind = Trouble::Kind::interrupt, .signal = signal});
  if (processes_.any_alive()) parts_.console.say(signal_name(signal) + ": handed on to all ranks; a second one kills them", Topic::interrupt);
  begin_ending(signal);
}

void Attempt::begin_ending(int signal) {
  end_.interrupted_by = signal;
  losses_->stop();
  if (processes_.any_alive()) ending_.pass_on(signal);
}

const std::deque<std::string>& Attempt::last_lines(int rank) const {
  static const auto& none = *new const std::deque<std::string>;
  const int local = rank - parts_.terms().first_rank;
  if (local < 0 || local >= parts_.options.ranks) return none;
  return output_.unseen_last_lines(static_cast<std::size_t>(local));
}

}  // namespace unisono::launcher

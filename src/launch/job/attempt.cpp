#include "launch/job/attempt.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launch/job/replacement.h"

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
      records_(parts.options, parts.terms().job_name, number),
      starter_(parts, number, output_, store_, records_),
      processes_(parts.watchdog, parts.options.ranks),
      ends_(parts.options, parts.terms(), processes_, store_),
      ending_(parts, processes_, ends_) {
  ends_.on_end([this](std::size_t index) { note_end(index); }, [this](const RankEnd& end) { losses_->note_failure(end); });
}

void Attempt::run() {
  start();
  while (!ending_.is_over()) {
    round();
    advance();
  }
  finish();
}

void Attempt::start() {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    start_rank({.index = i, .name = ends_[i].name, .newcomer = parts_.terms().is_late ? 1 : 0, .store_fd = store_.rank_end(i)});
  }
  starter_.started();
  store_.serve(parts_.hosts, number_);
  losses_ = make_policy();
}

std::unique_ptr<LossPolicy> Attempt::make_policy() {
  if (parts_.terms().least_ranks == 0) return std::make_unique<EndAll>(parts_.hosts, processes_, ends_, ending_, restarts_left_ > 0);
  const auto lose = [this](std::size_t index) {
    records_.keep(index);
    processes_.kill(index);  // what it has left running would be in the way of the next one
  };
  const auto start = [this](std::size_t index, const std::string& name, int number) { start_newcomer(index, name, number); };
  return std::make_unique<Replacement>(Replacement::Parts{.job = parts_,
                                                          .attempt = number_,
                                                          .restarts_left = restarts_left_,
                                                          .store = store_,
                                                          .processes = processes_,
                                                          .ends = ends_,
                                                          .ending = ending_,
                                                          .lose = lose,
                                                          .start = start});
}

void Attempt::start_rank(const RankStarter::Order& order) {
  processes_.put(order.index, starter_.start(order, processes_.descriptors()));
  ends_.replace(order.index, order.name, processes_.pid(order.index));
}

void Attempt::start_newcomer(std::size_t index, const std::string& name, int number) {
  const int rank = ends_[index].rank;
  RankStore::Connection connection = RankStore::connect(rank);
  output_.close(static_cast<int>(index));
  start_rank({.index = index, .name = name, .newcomer = number, .store_fd = connection.of_rank.get()});
  store_.adopt(rank, std::move(connection));
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
  parts_.hosts.wait_for(set, [this] { hear_other_hosts(); });
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

void Attempt::note_end(std::size_t index) {
  records_.note_ended(index);
  losses_->note_end(ends_[index]);
}

void Attempt::finish() {
  output_.drain();
  if (parts_.status_line != nullptr) parts_.status_line->hide();
  ends_.read_statuses();
  cause_ = losses_->finish();
  if (cause_) records_.keep_all();  // of the ranks that could not do so themselves
  store_.close();
}

/// A failure or interrupt on another host ends our ranks in the same steps.
void Attempt::hear_other_hosts() {
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
  // Where this host is the one that the others have lost, its ranks live so far.
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
  if (interrupted_by_) {
    if (!ending_.hurry()) return;
    parts_.console.say(signal_name(signal) + " again: killing all ranks", Topic::interrupt);
    return ending_.kill_all();
  }
  ends_.observe(signal);
  interrupted_first_ = !ends_.have_failed();
  leaves_ = parts_.hosts.is_left_by(signal);
  if (leaves_) {
    parts_.console.say("SIGTERM: this host leaves the job; its ranks are told to end, and a second one kills them", Topic::interrupt);
    return begin_ending(signal);
  }
  parts_.hosts.tell({.kind = Trouble::Kind::interrupt, .signal = signal});
  if (processes_.any_alive()) parts_.console.say(signal_name(signal) + ": handed on to all ranks; a second one kills them", Topic::interrupt);
  begin_ending(signal);
}

void Attempt::begin_ending(int signal) {
  interrupted_by_ = signal;
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

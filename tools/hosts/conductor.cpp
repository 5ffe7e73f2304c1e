#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "hosts/host_streams.h"
#include "hosts/host_start.h"
#include "launch/process/host.h"
#include "launch/output/output.h"
#include "launch/process/poll_set.h"
#include "launch/process/program.h"
#include "launch/process/signals.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Deadline;
using std::chrono::milliseconds;

/// The launchers of the other hosts get so much longer than the grace of their ranks, twice, to notice that one of them is lost.
constexpr milliseconds time_to_notice{10'000};

/// Returns the signals that end a job, and those that it hands on.
std::vector<int> handled_signals(const launcher::JobOptions& options) {
  std::vector<int> signals{SIGINT, SIGTERM, SIGQUIT, SIGTSTP, SIGCONT};
  if (!launcher::is_ignored(SIGHUP)) signals.push_back(SIGHUP);
  signals.insert(signals.end(), options.forwarded_signals.begin(), options.forwarded_signals.end());
  return signals;
}

/// Has the launchers of a job started on its hosts, passes on what they say and get, and sees them to their end.
class Conductor {
 public:
  explicit Conductor(const ConductedJob& job)
      : options_(*job.options),
        limit_(64 + descriptors_per_host * job.hosts.size()),
        signals_(handled_signals(options_), options_.forwarded_signals),
        console_(options_.environment, options_.shown.verbosity),
        output_(console_, job.hosts.size(), static_cast<int>(slots_of(job.hosts))),
        input_(options_.standard_input, job.hosts),
        answer_(rendezvous::join_timeout(rendezvous::default_timeout, options_.environment)),
        start_(job, hosts_),
        next_beat_(pause_of_beats(options_.hosts.silence)) {}

  int run() {
    start_.reach_hosts();
    while (phase_ != Phase::ended) {
      round();
      advance();
    }
    for (ConductedHost& host : hosts_) host.remote->close_input();
    hosts_.clear();
    const int code = account();
    launcher::write_out(console_, &signals_);
    return code == 0 && console_.has_lost_output() ? 1 : code;
  }

 private:
  enum class Phase { greeting, port, running, ended };

  void round() {
    launcher::PollSet set;
    console_.wait_for(set);
    set.add(signals_.fd(), POLLIN, [this](short) {
      while (const auto signal = signals_.next()) handle_signal(*signal);
    });
    // Before the hosts send what is queued.
    input_.pass([this](std::size_t host, FrameKind kind, std::string_view bytes) { hosts_[host].remote->send(kind, bytes); });
    const bool may_read = output_.may_read();
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].remote->wait_for(
          set, [this, i](const Frame& frame) { take(i, frame); }, may_read);
    if (!may_read) {  // what they say waits unread
      for (ConductedHost& host : hosts_) host.remote->forgive_silence();
      if (give_up_) give_up_.emplace(give_up_->timeout());
    }
    input_.wait_for(set);
    if (phase_ < Phase::running) set.wake_at(answer_);
    set.wake_at(next_beat_);
    if (give_up_) set.wake_at(*give_up_);
    if (shows_start_at_ && !shows_start_at_->passed()) set.wake_at(*shows_start_at_);
    set.wait();
    beat();
    show_start();
    console_.flush();
    pass_closed_output();
  }

  void advance() {
    look_for_the_lost();
    if (phase_ == Phase::greeting && all([](const ConductedHost& host) { return host.hello.has_value(); })) begin_start();
    if (phase_ < Phase::running && answer_.passed()) {
      for (ConductedHost& host : hosts_) {
        const bool is_late = phase_ == Phase::greeting ? !host.hello : &host == hosts_.data();
        if (is_late) refuse(host, fmt::format("no answer within {} s", answer_.timeout().count() / 1000), "UNISONO_TIMEOUT gives it longer");
      }
    }
    if (phase_ == Phase::running && all([](const ConductedHost& host) { return host.result || host.is_lost; })) phase_ = Phase::ended;
    if (give_up_ && give_up_->passed()) {
      if (exit_code_ == 0) exit_code_ = 1;
      phase_ = Phase::ended;
    }
  }

  /// On a terminal the last row tells how far a start is that takes longer than a moment.
  void show_start() {
    if (!shows_start_at_) return;
    const bool is_greeting = phase_ < Phase::running;
    const auto has_come = [&](const ConductedHost& host) {
      return is_greeting ? host.hello.has_value() : host.has_met || host.is_lost || host.result;
    };
    const auto next = std::ranges::find_if_not(hosts_, has_come);
    if (next == hosts_.end() && !is_greeting) {
      if (shows_start_at_->passed()) console_.set_footer({});
      return shows_start_at_.reset();
    }
    if (!shows_start_at_->passed()) return;
    const std::string waited_for = next == hosts_.end() ? "" : fmt::format(", {} is waited for", next->remote->name());
    console_.set_footer(fmt::format("{} of {} hosts {}{}", std::ranges::count_if(hosts_, has_come), hosts_.size(),
                                    is_greeting ? "have answered" : "have joined", waited_for));
  }

  void take(std::size_t number, const Frame& frame) {
    ConductedHost& host = hosts_[number];
    switch (frame.kind) {
      case FrameKind::hello: host.hello = decode_fields(frame.payload); return;
      case FrameKind::port:
        if (phase_ != Phase::port) throw ProtocolError("a port that nobody has asked for");
        return start_launchers(std::stoi(frame.payload));
      case FrameKind::output:
      case FrameKind::errors:
        if (give_up_) give_up_.emplace(give_up_->timeout());  // a launcher that has ended may have left much to be shown
        return output_.take(number, frame.kind == FrameKind::errors, frame.payload);
      case FrameKind::beat: return;
      case FrameKind::cancelled: return note_cancelled(host, std::stoi(frame.payload));
      case FrameKind::taken: return input_.note_taken(number, std::stoull(frame.payload));
      case FrameKind::message:
        if (frame.payload.starts_with("met ")) host.has_met = true;
        else output_.take_message(number, frame.payload);
        return;
      case FrameKind::result: return note_result(number, frame.payload);
      case FrameKind::failed: return refuse(host, frame.payload, {});
      default: throw ProtocolError("a message of a kind that only hosts get");
    }
  }

  /// A host that cannot be used ends the job before it has begun.
  void refuse(ConductedHost& host, const std::string& why, const std::string& hint) {
    if (phase_ == Phase::ended) return;
    host.is_lost = true;
    const HostEntry& entry = host.remote->entry();
    console_.shout(fmt::format("host {} ({}) cannot be used: {}", entry.name, entry.place, why));
    if (!hint.empty()) console_.say("hint: " + hint);
    exit_code_ = 1;
    if (phase_ == Phase::running) return end_others(SIGTERM);
    phase_ = Phase::ended;
  }

  void look_for_the_lost() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      ConductedHost& host = hosts_[i];
      if (host.has_ended) continue;
      if (host.remote->is_over()) {
        if (phase_ < Phase::running) return refuse(host, host.remote->why(), host.remote->hint());
        if (host.remote->was_terminated() && !host.result) note_cancelled(host, SIGTERM);
        lose(i, host.remote->why());
      } else if (phase_ == Phase::running && host.remote->silent_for() > options_.hosts.silence) {
        // The command that reaches the host may notice nothing: kubectl, srun and docker do not, and ssh only where it asks.
        host.remote->kill();
        lose(i, fmt::format("nothing has come from it for {:g} s", std::chrono::duration<double>(options_.hosts.silence).count()));
      }
    }
  }

  /// Nothing more comes from a host.
  void lose(std::size_t number, const std::string& why) {
    ConductedHost& host = hosts_[number];
    host.has_ended = true;
    input_.note_end(number);
    output_.finish(number);
    if (host.result) return;
    host.is_lost = true;
    if (loss_.empty()) loss_ = fmt::format("host {} is lost: {}", host.remote->name(), why);
    // Once they have met, the other launchers notice that by themselves, and give their ranks the grace.
    if (all([](const ConductedHost& each) { return each.has_met; })) give_up_.emplace(2 * options_.grace + options_.hosts.silence + time_to_notice);
    else end_others(SIGTERM);
  }

  /// The processes of a host were told to end, as those of a job of Slurm are by scancel. Its launcher tells those of the others.
  void note_cancelled(const ConductedHost& host, int signal) {
    if (interrupted_by_ || std::exchange(cancelled_by_, cancelled_by_.value_or(signal))) return;
    console_.say(fmt::format("{} has ended the launcher on host {}; all ranks are told to end", launcher::signal_name(signal), host.remote->name()));
  }

  void begin_start() {
    try {
      start_.choose_address();
    } catch (const InvalidArgument& error) {
      return refuse(hosts_.front(), error.message(), error.info().hint);
    }
    if (const auto port = start_.port()) return start_launchers(*port);
    phase_ = Phase::port;
    start_.ask_for_port();
  }

  void start_launchers(int port) {
    start_.start_launchers(port);
    phase_ = Phase::running;
    for (ConductedHost& host : hosts_) host.remote->forgive_silence();  // it was asked nothing before
    input_.begin();
  }

  void note_result(std::size_t number, const std::string& how) {
    ConductedHost& host = hosts_[number];
    input_.note_end(number);
    host.result = how;
    host.remote->close_input();
    const int code = std::stoi(how.substr(how.find(' ') + 1));
    const bool is_killed = how.starts_with("signal");
    if (is_killed && interrupts_ == 0 && loss_.empty() && exit_code_ == 0)
      loss_ = fmt::format("the launcher on host {} was ended by {}", host.remote->name(), launcher::signal_name(code));
    if (!is_killed && code != 0 && exit_code_ == 0) exit_code_ = code;
    has_killed_ = has_killed_ || is_killed;
    const bool have_met = all([](const ConductedHost& each) { return each.has_met; });
    if ((is_killed || code != 0) && !have_met) end_others(SIGTERM);
    // They end together: one that does not follow has stopped.
    if (have_met && (is_killed || !give_up_)) give_up_.emplace(2 * options_.grace + options_.hosts.silence + time_to_notice);
  }

  /// Ends the launchers that still run. They have not met, so nothing else tells them.
  void end_others(int signal) {
    for (ConductedHost& host : hosts_)
      if (!host.result) host.remote->send(FrameKind::signal, std::to_string(signal));
    if (!give_up_) give_up_.emplace(2 * options_.grace + time_to_notice);
  }

  void handle_signal(int signal) {
    const auto& forwarded = options_.forwarded_signals;
    if (signal == SIGCONT) return;
    if (signal == SIGTSTP) {  // the ranks go on, as far as their output is taken
      for (ConductedHost& host : hosts_) {
        host.remote->send(FrameKind::pause);
        host.remote->flush();
      }
      console_.flush();
      ::kill(::getpid(), SIGSTOP);
      for (ConductedHost& host : hosts_) host.remote->forgive_silence();
      return;
    }
    const bool is_ending = std::ranges::find(forwarded, signal) == forwarded.end();
    if (is_ending) {
      ++interrupts_;
      if (!interrupted_by_) interrupted_by_ = signal;
      if (phase_ < Phase::running || interrupts_ > 2) {
        if (exit_code_ == 0) exit_code_ = launcher::exit_signaled + signal;
        phase_ = Phase::ended;
        return;
      }
      console_.say(launcher::signal_name(signal) +
                   (interrupts_ == 1 ? ": handed on to all ranks; a second one kills them" : " again: killing all ranks"));
    }
    // The launchers tell each other of the first Ctrl-C; one that got it both ways would take it for the second. A second one comes to each as two
    // signals, because one that has not heard of the first takes it for that.
    const bool is_told_on = is_ending && interrupts_ == 1 && all([](const ConductedHost& host) { return host.has_met; });
    for (ConductedHost& host : hosts_) {
      if (host.result || host.is_lost) continue;
      host.remote->send(FrameKind::signal, std::to_string(signal));
      // The same signal again at once would be taken for the same request.
      if (is_ending && interrupts_ > 1) host.remote->send(FrameKind::signal, std::to_string(signal == SIGTERM ? SIGINT : SIGTERM));
      if (is_told_on) return;
    }
  }

  void beat() {
    if (!next_beat_.passed()) return;
    for (ConductedHost& host : hosts_)
      if (!host.has_ended && !host.result) host.remote->send(FrameKind::beat);
    next_beat_ = Deadline(pause_of_beats(options_.hosts.silence));
  }

  /// A reader that leaves, as head does, ends the ranks that write, as on one host.
  void pass_closed_output() {
    if (phase_ != Phase::running || has_closed_output_ || !console_.out().reader_left()) return;
    has_closed_output_ = true;
    for (ConductedHost& host : hosts_) host.remote->send(FrameKind::closed, std::string(1, static_cast<char>(FrameKind::output)));
  }

  int account() {
    const bool was_ended = interrupted_by_ || cancelled_by_;
    output_.show_accounts(loss_.empty() && !was_ended);
    if (cancelled_by_) console_.shout(fmt::format("first cause: the job was cancelled ({})", launcher::signal_name(*cancelled_by_)));
    else if (!loss_.empty() && !was_ended) console_.shout("first cause: " + loss_);
    if (exit_code_ != 0) return exit_code_;
    if (cancelled_by_) return launcher::exit_signaled + *cancelled_by_;
    if (interrupted_by_ && has_killed_) return launcher::exit_signaled + *interrupted_by_;
    return loss_.empty() ? 0 : 1;
  }

  template <class Condition>
  bool all(Condition condition) const {
    return std::ranges::all_of(hosts_, condition);
  }

  const launcher::JobOptions& options_;
  const launcher::DescriptorLimit limit_;
  launcher::SignalScope signals_;
  launcher::Console console_;
  HostOutput output_;
  HostInput input_;
  base::Deadline answer_;
  std::vector<ConductedHost> hosts_;
  HostStart start_;
  Phase phase_ = Phase::greeting;
  std::string loss_;
  base::Deadline next_beat_;
  std::optional<base::Deadline> shows_start_at_{milliseconds(1000)};  ///< nothing: the start is over
  std::optional<base::Deadline> give_up_;
  std::optional<int> interrupted_by_, cancelled_by_;  ///< the signal that this command has got; that the processes of a host have got
  bool has_closed_output_ = false;
  bool has_killed_ = false;  ///< a launcher was ended by a signal
  int interrupts_ = 0, exit_code_ = 0;
};

}  // namespace

int conduct(const ConductedJob& job) { return Conductor(job).run(); }

}  // namespace unisono::tools

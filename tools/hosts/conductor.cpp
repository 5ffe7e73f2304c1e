#include "hosts/conductor.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/deadline.h"
#include "hosts/host_input.h"
#include "hosts/host_output.h"
#include "hosts/remote_host.h"
#include "hosts/start_words.h"
#include "launch/host.h"
#include "launch/output.h"
#include "launch/poll_set.h"
#include "launch/program.h"
#include "launch/rank_log.h"
#include "launch/signals.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Deadline;
using std::chrono::milliseconds;

constexpr milliseconds pause_of_beats{1000};
/// The launchers of the other hosts get so much longer than the grace of their ranks, twice, to notice that one of them is lost.
constexpr milliseconds time_to_notice{10'000};

/// Returns the signals that end a job, and those that it hands on.
std::vector<int> handled_signals(const launcher::JobOptions& options) {
  std::vector<int> signals{SIGINT, SIGTERM, SIGQUIT, SIGTSTP, SIGCONT};
  if (!launcher::is_ignored(SIGHUP)) signals.push_back(SIGHUP);
  signals.insert(signals.end(), options.forwarded_signals.begin(), options.forwarded_signals.end());
  return signals;
}

class Conductor {
 public:
  explicit Conductor(const ConductedJob& job)
      : job_(job),
        options_(*job.options),
        limit_(64 + descriptors_per_host * job.hosts.size()),
        signals_(handled_signals(options_)),
        console_(options_.environment, options_.verbosity),
        output_(console_, job.hosts.size(), static_cast<int>(slots_of(job.hosts))),
        input_(options_.standard_input, job.hosts),
        answer_(rendezvous::join_timeout(rendezvous::default_timeout, options_.environment)) {}

  int run();

 private:
  enum class Phase { greeting, port, running, ended };
  struct Host {
    std::unique_ptr<RemoteHost> remote;
    std::optional<Fields> hello = {};
    std::optional<std::string> result = {};  ///< "exit 7", "signal 9"
    bool has_met = false, is_lost = false, has_ended = false;
  };

  void start_hosts();
  void round();
  void advance();
  void take(std::size_t number, const Frame& frame);
  void refuse(Host& host, const std::string& why, const std::string& hint);
  void look_for_the_lost();
  void begin_start();
  std::string meeting_address() const;
  void start_launchers(int port);
  std::vector<std::string> launcher_words(std::size_t number, int port) const;
  void note_result(std::size_t number, const std::string& how);
  void end_others(int signal);
  void handle_signal(int signal);
  void beat();
  void pass_closed_output();
  int account();
  template <class Condition>
  bool all(Condition condition) const {
    return std::ranges::all_of(hosts_, condition);
  }

  const ConductedJob& job_;
  const launcher::JobOptions& options_;
  const launcher::DescriptorLimit limit_;
  launcher::SignalScope signals_;
  launcher::Console console_;
  HostOutput output_;
  HostInput input_;
  Deadline answer_;
  std::vector<Host> hosts_;
  Phase phase_ = Phase::greeting;
  std::string address_, loss_;
  std::optional<Deadline> next_beat_, give_up_;
  std::optional<int> interrupted_by_;
  bool has_closed_output_ = false;
  bool has_killed_ = false;  ///< a launcher was ended by a signal
  int interrupts_ = 0, exit_code_ = 0;
};

int Conductor::run() {
  start_hosts();
  while (phase_ != Phase::ended) {
    round();
    advance();
  }
  for (Host& host : hosts_) host.remote->close_input();
  hosts_.clear();
  const int code = account();
  launcher::write_out(console_, &signals_);
  return code == 0 && console_.has_lost_output() ? 1 : code;
}

void Conductor::start_hosts() {
  const std::string connection = options_.environment.get("SSH_CONNECTION").value_or("");
  for (const HostEntry& entry : job_.hosts) {
    const bool local = is_this_host(entry.name);
    Host host{.remote = std::make_unique<RemoteHost>(entry, local ? std::vector<std::string>() : start_words(job_.start_command, entry))};
    Fields config{{"folder", job_.folder},
                  {"silence", std::to_string(options_.silence.count())},
                  {"outer connection", connection},
                  {"address is needed", hosts_.empty() && job_.hosts.size() > 1 && job_.master_addr.empty() ? "yes" : "no"}};
    for (const std::string& variable : job_.variables) config.emplace_back("variable", variable);
    host.remote->send(FrameKind::config, encode(config));
    hosts_.push_back(std::move(host));
  }
}

void Conductor::round() {
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
  input_.wait_for(set);
  if (phase_ < Phase::running) set.wake_at(answer_);
  if (next_beat_) set.wake_at(*next_beat_);
  if (give_up_) set.wake_at(*give_up_);
  set.wait();
  beat();
  console_.flush();
  pass_closed_output();
}

/// A reader that leaves, as head does, ends the ranks that write, as on one host.
void Conductor::pass_closed_output() {
  if (phase_ != Phase::running || has_closed_output_ || !console_.out().reader_left()) return;
  has_closed_output_ = true;
  for (Host& host : hosts_) host.remote->send(FrameKind::closed, std::string(1, static_cast<char>(FrameKind::output)));
}

void Conductor::take(std::size_t number, const Frame& frame) {
  Host& host = hosts_[number];
  switch (frame.kind) {
    case FrameKind::hello: host.hello = decode_fields(frame.payload); return;
    case FrameKind::port:
      if (phase_ != Phase::port) throw ProtocolError("a port that nobody has asked for");
      return start_launchers(std::stoi(frame.payload));
    case FrameKind::output: return output_.take(number, false, frame.payload);
    case FrameKind::errors: return output_.take(number, true, frame.payload);
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
void Conductor::refuse(Host& host, const std::string& why, const std::string& hint) {
  if (phase_ == Phase::ended) return;
  host.is_lost = true;
  const HostEntry& entry = host.remote->entry();
  console_.shout(fmt::format("host {} ({}) cannot be used: {}", entry.name, entry.place, why));
  if (!hint.empty()) console_.say("hint: " + hint);
  exit_code_ = 1;
  if (phase_ == Phase::running) return end_others(SIGTERM);
  phase_ = Phase::ended;
}

void Conductor::advance() {
  look_for_the_lost();
  if (phase_ == Phase::greeting && all([](const Host& host) { return host.hello.has_value(); })) begin_start();
  if (phase_ < Phase::running && answer_.passed()) {
    for (Host& host : hosts_) {
      const bool is_late = phase_ == Phase::greeting ? !host.hello : &host == hosts_.data();
      if (is_late) refuse(host, fmt::format("no answer within {} s", answer_.timeout().count() / 1000), "UNISONO_TIMEOUT gives it longer");
    }
  }
  if (phase_ == Phase::running && all([](const Host& host) { return host.result || host.is_lost; })) phase_ = Phase::ended;
  if (give_up_ && give_up_->passed()) {
    if (exit_code_ == 0) exit_code_ = 1;
    phase_ = Phase::ended;
  }
}

void Conductor::look_for_the_lost() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (!host.remote->is_over() || host.has_ended) continue;
    host.has_ended = true;
    input_.note_end(i);
    output_.finish(i);
    if (host.result) continue;
    if (phase_ < Phase::running) return refuse(host, host.remote->why(), host.remote->hint());
    host.is_lost = true;
    if (loss_.empty()) loss_ = fmt::format("host {} is lost: {}", host.remote->name(), host.remote->why());
    // Once they have met, the other launchers notice that by themselves, and give their ranks the grace.
    if (all([](const Host& each) { return each.has_met; })) give_up_.emplace(2 * options_.grace + options_.silence + time_to_notice);
    else end_others(SIGTERM);
  }
}

/// Host 0 tells by which address it was reached. Where it is this host, the others tell which address they were reached from.
std::string Conductor::meeting_address() const {
  if (!job_.master_addr.empty()) return job_.master_addr;
  const bool is_chosen = options_.environment.has("UNISONO_INTERFACE");
  if (hosts_.front().remote->is_local() && !is_chosen) {
    for (const Host& host : hosts_)
      if (const std::string peer = field(*host.hello, "peer"); !peer.empty() && !host.remote->is_local()) return peer;
  }
  const bool is_one = all([](const Host& host) { return host.remote->is_local(); });
  return is_one ? "127.0.0.1" : field(*hosts_.front().hello, "address");
}

void Conductor::begin_start() {
  if (hosts_.size() == 1) return start_launchers(0);
  address_ = meeting_address();
  if (job_.master_port != 0) return start_launchers(job_.master_port);
  phase_ = Phase::port;
  hosts_.front().remote->send(FrameKind::port, encode(Fields{{"address", address_}}));
}

std::vector<std::string> Conductor::launcher_words(std::size_t number, int port) const {
  std::vector<std::string> words = job_.words(hosts_[number].remote->entry());
  std::vector<std::string> where{"-n", std::to_string(hosts_[number].remote->entry().slots)};
  if (hosts_.size() > 1) {
    where.insert(where.end(), {"--nnodes", std::to_string(hosts_.size()), "--node-rank", std::to_string(number), "--master-addr", address_,
                               "--master-port", std::to_string(port), "--token-file", "{token-file}"});
  }
  words.insert(words.begin() + 1, where.begin(), where.end());
  return words;
}

void Conductor::start_launchers(int port) {
  const std::string secret = job_.secret.empty() ? launcher::random_id() + launcher::random_id() : job_.secret;
  const std::string log_name = launcher::log_folder_name(launcher::random_id());
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Fields fields{{"secret", hosts_.size() > 1 ? secret : std::string()}};
    fields.emplace_back("log name", log_name);
    for (std::string& word : launcher_words(i, port)) fields.emplace_back("word", std::move(word));
    hosts_[i].remote->send(FrameKind::start, encode(fields));
  }
  phase_ = Phase::running;
  next_beat_.emplace(pause_of_beats);
  input_.begin();
}

void Conductor::note_result(std::size_t number, const std::string& how) {
  Host& host = hosts_[number];
  input_.note_end(number);
  host.result = how;
  host.remote->close_input();
  const int code = std::stoi(how.substr(how.find(' ') + 1));
  const bool is_killed = how.starts_with("signal");
  if (is_killed && interrupts_ == 0 && loss_.empty() && exit_code_ == 0)
    loss_ = fmt::format("the launcher on host {} was ended by {}", host.remote->name(), launcher::signal_name(code));
  if (!is_killed && code != 0 && exit_code_ == 0) exit_code_ = code;
  has_killed_ = has_killed_ || is_killed;
  const bool have_met = all([](const Host& each) { return each.has_met; });
  if ((is_killed || code != 0) && !have_met) end_others(SIGTERM);
  if (is_killed && have_met) give_up_.emplace(2 * options_.grace + options_.silence + time_to_notice);
}

/// Ends the launchers that still run. They have not met, so nothing else tells them.
void Conductor::end_others(int signal) {
  for (Host& host : hosts_)
    if (!host.result) host.remote->send(FrameKind::signal, std::to_string(signal));
  if (!give_up_) give_up_.emplace(2 * options_.grace + time_to_notice);
}

void Conductor::handle_signal(int signal) {
  const auto& forwarded = options_.forwarded_signals;
  if (signal == SIGCONT) return;
  if (signal == SIGTSTP) {  // the ranks go on, as far as their output is taken
    for (Host& host : hosts_) {
      host.remote->send(FrameKind::pause);
      host.remote->flush();
    }
    console_.flush();
    ::kill(::getpid(), SIGSTOP);
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
  // The launchers tell each other of the first Ctrl-C; one that got it both ways would take it for the second. A second one comes to each twice,
  // because one that has not heard of the first takes it for that.
  const bool is_told_on = is_ending && interrupts_ == 1 && all([](const Host& host) { return host.has_met; });
  for (Host& host : hosts_) {
    if (host.result || host.is_lost) continue;
    for (int i = 0; i < (is_ending ? interrupts_ : 1); ++i) host.remote->send(FrameKind::signal, std::to_string(signal));
    if (is_told_on) return;
  }
}

void Conductor::beat() {
  if (!next_beat_ || !next_beat_->passed()) return;
  for (Host& host : hosts_)
    if (!host.result) host.remote->send(FrameKind::beat);
  next_beat_.emplace(pause_of_beats);
}

int Conductor::account() {
  output_.show_accounts(loss_.empty() && !interrupted_by_);
  if (!loss_.empty() && !interrupted_by_) console_.shout("first cause: " + loss_);
  if (exit_code_ != 0) return exit_code_;
  if (interrupted_by_ && has_killed_) return launcher::exit_signaled + *interrupted_by_;
  return loss_.empty() ? 0 : 1;
}

}  // namespace

int conduct(const ConductedJob& job) { return Conductor(job).run(); }

}  // namespace unisono::tools

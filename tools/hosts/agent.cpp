#include "hosts/host_child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/host.h"
#include "base/secret.h"
#include "base/socket.h"
#include "hosts/frames.h"
#include "hosts/remote_host.h"
#include "launch/process/environment_block.h"
#include "launch/process/host.h"
#include "launch/process/pidfd.h"
#include "launch/process/poll_set.h"
#include "launch/process/program.h"
#include "launch/process/signals.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using launcher::error_text;
using launcher::StartFailed;

constexpr std::size_t bytes_per_read = 64u << 10;
constexpr std::size_t most_queued = 1u << 20;  // bytes, beyond which the launcher's output is not read
/// What has the launcher's output open longer than this after its end is not waited for.
constexpr auto patience_after_end = std::chrono::seconds(2);
constexpr auto pause_for_signal = std::chrono::milliseconds(5);

/// The signals by which a batch system ends a job on all its hosts. SIGINT comes from a terminal, of which the other side tells.
constexpr std::array cancelling_signals{SIGTERM};

class HostAgent {
 public:
  HostAgent() : to_send_(greeting_line() + "\n"), environment_(base::Environment::process()), cancelling_(cancelling_signals) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) base::set_non_blocking(fd);
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~HostAgent() { end_child(); }
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  int serve() {
    while (!is_over()) {
      if (heard_ && heard_->passed()) return 1;
      round();
    }
    return lost_ ? 1 : 0;
  }

 private:
  struct Channel {
    FrameKind kind = FrameKind::output;
    base::FileDescriptor source = {};
    std::string line = {};  ///< of messages: the beginning of one
  };

  bool is_over() const { return lost_ || (told_result_ && to_send_.empty()); }

  void round() {
    launcher::PollSet set;
    beat();
    write_some();
    set.add(cancelling_.fd(), POLLIN, [this](short) { hand_on_cancelling(); });
    if (!to_send_.empty()) set.add(STDOUT_FILENO, POLLOUT, [this](short) { write_some(); });
    set.add(STDIN_FILENO, POLLIN, [this](short) { read_frames(); });
    if (child_.pidfd && !status_) set.add(child_.pidfd.get(), POLLIN, [this](short) { note_end(); });
    for (Channel& channel : channels_) {
      const bool may_read = channel.kind == FrameKind::message || to_send_.size() < most_queued;
      if (channel.source && may_read) set.add(channel.source.get(), POLLIN, [this, &channel](short) { read_channel(channel); });
    }
    if (child_.input && !input_.empty()) set.add(child_.input.get(), POLLOUT, [this](short) { write_input(); });
    send_signals(set);
    if (heard_) set.wake_at(*heard_);
    if (drain_) set.wake_at(*drain_);
    if (next_beat_) set.wake_at(*next_beat_);
    set.wait();
    tell_result();
  }

  void read_frames() {
    std::array<char, bytes_per_read> buffer;
    const auto bytes = read_some(STDIN_FILENO, buffer);
    if (!bytes) return;
    lost_ = bytes->empty();
    if (lost_) return;
    reader_.feed(*bytes);
    ::explicit_bzero(buffer.data(), bytes->size());
    try {
      while (auto frame = reader_.next()) {
        heard_.emplace(silence_);
        const std::shared_ptr<void> wiped(nullptr, [&](void*) { base::wipe(frame->payload); });  // it may hold a secret
        take(*frame);
      }
    } catch (const StartFailed& error) {
      send(FrameKind::failed, error.message());
    } catch (const Error& error) {
      send(FrameKind::failed, error.message() + (error.info().hint.empty() ? "" : " (" + error.info().hint + ")"));
    }
  }

  void take(const Frame& frame) {
    switch (frame.kind) {
      case FrameKind::config: return configure(decode_fields(frame.payload));
      case FrameKind::port: return keep_port(decode_fields(frame.payload));
      case FrameKind::start: return start(decode_fields(frame.payload));
      case FrameKind::input: input_ += frame.payload; return write_input();
      case FrameKind::input_end: input_ended_ = true; return write_input();
      case FrameKind::signal:
        if (child_.pidfd && !status_) signals_.push_back(std::stoi(frame.payload));
        return;
      case FrameKind::closed:  // the launcher, and then its ranks, get a closed pipe
        for (Channel& channel : channels_)
          if (frame.payload == std::string(1, static_cast<char>(channel.kind))) channel.source.reset();
        return;
      case FrameKind::pause: return heard_.reset();
      case FrameKind::beat: return;
      default: throw ProtocolError("a message of a kind that no host takes");
    }
  }

  void configure(const Fields& fields) {
    if (const std::string folder = field(fields, "folder"); ::chdir(folder.c_str()) != 0) {
      throw StartFailed(fmt::format("the folder {} cannot be entered there: {} (--wdir names another one)", folder, error_text(errno)), 1);
    }
    environment_.set("PWD", field(fields, "folder"));
    for (const std::string& variable : all_fields(fields, "variable")) {
      const auto equals = variable.find('=');
      environment_.set(variable.substr(0, equals), variable.substr(equals + 1));
    }
    silence_ = std::chrono::milliseconds(std::stoll(field(fields, "silence")));
    heard_.emplace(silence_);
    next_beat_.emplace(pause_of_beats(silence_));
    greet(fields);
  }

  /// Says by which address the other hosts reach this one. The address by which ssh has come here is known to work.
  void greet(const Fields& fields) {
    std::string client, server, port;
    const std::string connection = environment_.get("SSH_CONNECTION");
    if (connection != field(fields, "outer connection")) std::istringstream(connection) >> client >> port >> server >> port;
    std::optional<base::SocketAddress> route;
    if (base::is_numeric(server)) route = base::resolve(server, 0).front();
    std::string address;
    if (field(fields, "address is needed") == "yes") address = rendezvous::own_address(environment_.as_environment(), route, false);
    send(FrameKind::hello, encode(Fields{{"host", base::host_name()}, {"address", address}, {"peer", client}}));
  }

  void keep_port(const Fields& fields) {
    const auto resolved = base::resolve(field(fields, "address"), 0);
    const auto chosen = rendezvous::addresses_to_listen_on(field(fields, "address"), resolved, environment_.as_environment());
    port_ = std::make_unique<launcher::PortReservation>(chosen.front().with_port(0));
    send(FrameKind::port, std::to_string(port_->port()));
  }

  void start(Fields fields) {
    base::FileDescriptor secret;
    if (const base::Secret text = take_secret_field(fields, "secret"); !text.empty()) secret = secret_file(text);
    std::vector<std::string> words = all_fields(fields, "word");
    for (std::string& word : words)
      if (word == "{token-file}") word = fmt::format("/proc/self/fd/{}", secret.get());
    words.insert(words.begin(), field(fields, "log name"));
    base::FileDescriptor messages;
    child_ = start_host_child(words, secret, environment_, messages);
    channels_.push_back({FrameKind::output, std::move(child_.output)});
    channels_.push_back({FrameKind::errors, std::move(child_.errors)});
    channels_.push_back({FrameKind::message, std::move(messages)});
    write_input();
  }

  void read_channel(Channel& channel) {
    std::array<char, bytes_per_read> buffer;
    const auto bytes = read_some(channel.source.get(), buffer);
    if (!bytes) return;
    if (bytes->empty()) return channel.source.reset();
    if (channel.kind == FrameKind::message) send_messages(channel, *bytes);
    else send(channel.kind, *bytes);
  }

  void send_messages(Channel& channel, std::string_view bytes) {
    channel.line += bytes;
    for (auto end = channel.line.find('\n'); end != std::string::npos; end = channel.line.find('\n')) {
      send(FrameKind::message, channel.line.substr(0, end));
      channel.line.erase(0, end + 1);
    }
  }

  void write_input() {
    if (!child_.pidfd) return;  // not started yet
    const std::size_t before = input_.size();
    if (child_.input && !write_front(child_.input.get(), input_)) child_.input.reset();  // nobody reads it
    if (!child_.input) input_.clear();
    if (input_.size() < before) send(FrameKind::taken, std::to_string(before - input_.size()));
    if (input_ended_ && input_.empty()) child_.input.reset();
  }

  /// A signal that is pending already would be lost, and a second Ctrl-C counts.
  void send_signals(launcher::PollSet& set) {
    while (!signals_.empty() && !status_) {
      if (is_pending(child_.pid, signals_.front())) return set.wake_within(pause_for_signal);
      launcher::signal_pidfd(child_.pidfd, signals_.front());
      signals_.pop_front();
    }
  }

  /// The ranks have time to end, as after a signal to the command itself. Without a launcher there is nothing to end.
  void hand_on_cancelling() {
    while (const auto signal = cancelling_.next()) {
      if (status_) continue;
      send(FrameKind::cancelled, std::to_string(*signal));
      signals_.push_back(*signal);
      if (child_.pidfd) continue;
      write_some();
      lost_ = true;
    }
  }

  /// What waits to be sent shows as well that this host lives.
  void beat() {
    if (!next_beat_ || !next_beat_->passed()) return;
    if (to_send_.empty()) send(FrameKind::beat);
    next_beat_.emplace(pause_of_beats(silence_));
  }

  void write_some() {
    if (!write_front(STDOUT_FILENO, to_send_)) lost_ = true;
  }

  void note_end() {
    int status = 0;
    if (status_ || ::waitpid(child_.pid, &status, WNOHANG) != child_.pid) return;
    status_ = status;
    drain_.emplace(patience_after_end);
  }

  void tell_result() {
    if (!status_ || told_result_) return;
    bool open = false;
    for (const Channel& channel : channels_) open = open || channel.source;
    if (to_send_.size() >= most_queued) drain_.emplace(patience_after_end);  // what is left cannot be read yet
    if (open && !drain_->passed()) return;
    told_result_ = true;
    send(FrameKind::result, WIFSIGNALED(*status_) ? fmt::format("signal {}", WTERMSIG(*status_)) : fmt::format("exit {}", WEXITSTATUS(*status_)));
  }

  void end_child() noexcept {
    if (child_.pid <= 0 || status_) return;
    ::kill(child_.pid, SIGKILL);
    while (::waitpid(child_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void send(FrameKind kind, std::string_view payload = {}) { to_send_ += encode(kind, payload); }

  FrameReader reader_{""};
  std::string to_send_, input_;
  launcher::EnvironmentBlock environment_;
  launcher::SignalScope cancelling_;
  std::chrono::milliseconds silence_ = base::longest_timeout;
  std::optional<base::Deadline> heard_, drain_, next_beat_;
  std::unique_ptr<launcher::PortReservation> port_;
  PipedChild child_;
  std::vector<Channel> channels_;
  std::deque<int> signals_;  ///< for the launcher
  std::optional<int> status_;
  bool input_ended_ = false, told_result_ = false, lost_ = false;
};

}  // namespace

int serve_as_host() {
  HostAgent agent;
  return agent.serve();
}

}  // namespace unisono::tools

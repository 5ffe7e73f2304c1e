#include "launch/view/state_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <fstream>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/log.h"
#include "base/socket.h"
#include "launch/process/host.h"
#include "launch/process/poll_set.h"
#include "launch/view/job_view.h"

namespace unisono::launcher {
namespace {

constexpr std::chrono::milliseconds time_to_write{2000};
constexpr std::chrono::milliseconds time_to_answer{5000};  // the launcher itself may ask other hosts
constexpr std::chrono::milliseconds rest_after_refusal{100};
constexpr std::size_t longest_answer = 64U << 20;

/// Abstract sockets have no file that could stay behind. The random part keeps processes of other PID namespaces apart.
std::string name_prefix(pid_t launcher) { return fmt::format("unisono-launcher-{}-{}-", ::geteuid(), launcher); }

/// Returns the names of abstract sockets that begin so.
std::set<std::string> names_with(const std::string& prefix) {
  std::set<std::string> names;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find(" @" + prefix);
    if (at != std::string::npos) names.insert(line.substr(at + 2));  // connected sockets have the name as well
  }
  return names;
}

base::FileDescriptor connect_to(const std::string& name) {
  base::Opened opened = base::try_connect(base::SocketAddress::abstract_unix(name), base::Deadline(time_to_write));
  // Anybody may have taken such a name.
  return opened.fd && base::peer_is_same_user(opened.fd.get()) ? std::move(opened.fd) : base::FileDescriptor();
}

/// What a launcher says.
struct Answer {
  base::FileDescriptor from = {};  ///< empty: it has said all, or is not listened to any more
  std::string text = {};
  bool is_whole = false;

  void take() {
    std::array<char, 1U << 16> bytes{};
    const auto got = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
    is_whole = got == 0;
    if (got <= 0 || text.size() > longest_answer) from.reset();
  }
};

/// Reads what all of them say until the last one is done, or the time is over: those that are stopped say nothing.
void read_all(std::vector<Answer>& answers) {
  const base::Deadline deadline(time_to_answer);
  const auto is_open = [](const Answer& answer) { return static_cast<bool>(answer.from); };
  while (std::ranges::any_of(answers, is_open) && !deadline.passed()) {
    PollSet set;
    for (Answer& answer : answers) {
      if (is_open(answer)) set.add(answer.from.get(), POLLIN, [&answer](short) { answer.take(); });
    }
    set.wake_at(deadline);
    set.wait();
  }
}

}  // namespace

StateServer::StateServer(std::function<std::vector<JobSeen>()> look) : look_(std::move(look)) {
  base::Opened opened = base::try_listen(base::SocketAddress::abstract_unix(name_prefix(::getpid()) + random_id().substr(0, 8)));
  try {
    if (opened.fd) stop_.emplace();
  } catch (const StartFailed&) {  // no descriptor is left
  }
  if (!stop_) {  // the job does not depend on it
    base::debug("no socket at which `unisono status` could ask for the ranks of other hosts");
    return;
  }
  listening_ = std::move(opened.fd);
  thread_ = base::Thread("the state of the job for unisono status", [this] { serve(); });
}

StateServer::~StateServer() {
  if (stop_) stop_->notify();
  thread_.join();
}

void StateServer::serve() {
  bool rests = false;
  for (bool is_stopped = false; !is_stopped;) {
    base::FileDescriptor asking;
    PollSet set;
    set.add(stop_->fd(), POLLIN, [&](short) { is_stopped = true; });
    if (std::exchange(rests, false)) set.wake_within(rest_after_refusal);
    else
      set.add(listening_.get(), POLLIN, [&](short) {
        asking.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        rests = !asking;  // without a descriptor to spare it would be reported again at once
      });
    set.wait();
    if (is_stopped || !asking || !base::peer_is_same_user(asking.get())) continue;
    try {
      answer(asking);
    } catch (const std::exception& error) {  // such as a store that is lost
      base::log(base::LogLevel::debug, error.what());
    }
  }
}

void StateServer::answer(const base::FileDescriptor& asking) {
  const std::string bytes = encode(look_());
  const base::Deadline deadline(time_to_write);
  for (std::size_t done = 0; done < bytes.size();) {
    if (!base::wait_for(asking.get(), POLLOUT, deadline)) return;
    const auto sent = ::send(asking.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return;
    done += static_cast<std::size_t>(sent);
  }
}

std::vector<std::vector<JobSeen>> ask_launchers() {
  std::vector<Answer> answers;
  for (const std::string& name : names_with(fmt::format("unisono-launcher-{}-", ::geteuid()))) {
    if (auto fd = connect_to(name)) answers.push_back({.from = std::move(fd)});
  }
  read_all(answers);
  std::vector<std::vector<JobSeen>> all;
  for (const Answer& answer : answers) {
    auto hosts = answer.is_whole ? decode_hosts(answer.text) : std::nullopt;
    if (hosts && !hosts->empty()) all.push_back(std::move(*hosts));
  }
  return all;
}

base::FileDescriptor connect_to_launcher(pid_t launcher) {
  for (const std::string& name : names_with(name_prefix(launcher))) {
    if (auto fd = connect_to(name)) return fd;
  }
  return {};
}

}  // namespace unisono::launcher
